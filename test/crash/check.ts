import type { Engine } from '../../src/index.js'

/** Runs the engine's check of all stored data, and requires that it finds nothing. */
export async function requireChecked(engine: Engine): Promise<void> {
  const { found, findings } = await engine.check()
  if (found > 0) throw new Error(`the store is damaged: ${JSON.stringify(findings.slice(0, 10))}`)
}
