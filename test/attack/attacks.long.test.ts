import { expect, test } from 'vitest'
import { seed } from '../support/seed.js'
import { attacks } from './attacks.js'

test.each(Object.entries(attacks))(
  `resists the attack "%s" (FORKSPACE_SEED=${seed})`,
  { timeout: 120_000 },
  async (_name, attack) => {
    const lines: string[] = []
    const { line, failed } = await attack.run({
      n: attack.shortN,
      seed,
      onProgress: (text) => lines.push(text),
    })
    expect(failed, [...lines.slice(-20), line].join('\n')).toBe(false)
  },
)
