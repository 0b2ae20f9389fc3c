import type { Engine } from '../../src/index.js'

/** Has the engine look at everything that it stores. */
export async function requireChecked(engine: Engine): Promise<void> {
  const { found, findings } = await engine.check()
  if (found > 0) throw new Error(`the store is damaged: ${JSON.stringify(findings.slice(0, 10))}`)
}
