import { join } from 'node:path'

/** The compiled form of this directory, because child processes cannot load TypeScript. */
export async function compiledAttacks(): Promise<string> {
  if (import.meta.filename.endsWith('.js')) return import.meta.dirname
  const { compiledProject } = await import('../support/compile-source.js')
  return join(await compiledProject(), 'test/attack')
}
