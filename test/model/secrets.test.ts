import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'
import { storages } from '../support/storages.js'
import { runs, seed, size } from '../support/seed.js'

const key = (number: number): { id: string; key: Uint8Array } => ({
  id: `key ${number}`,
  key: new Uint8Array(32).fill(number),
})

type Step =
  | { readonly kind: 'put'; readonly session: number; readonly name: string; readonly value: string }
  | { readonly kind: 'delete'; readonly session: number; readonly name: string }
  | { readonly kind: 'fork' | 'remove' | 'restore'; readonly session: number }
  /** Reopens the engine with the next key; the secrets are rotated before, during or after a change. */
  | { readonly kind: 'rotate'; readonly session: number; readonly name: string }
  | { readonly kind: 'reopen' }

const session = fc.nat(2)
const name = fc.constantFrom('A', 'a', '__proto__', 'ä', 'A B')
const value = fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), fc.constant('x'.repeat(50_000)))
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.record({ kind: fc.constant('put' as const), session, name, value }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), session, name }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constantFrom('fork', 'remove', 'restore' as const), session }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('rotate' as const), session, name }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const) }) },
  ),
  { maxLength: 30 },
)

/** The open sessions with their expected contents. */
interface Known {
  session: Session
  readonly secrets: Map<string, string>
}

describe.each(storages)('secrets on %s', (_name, makeStorage, lasting) => {
  test(`agree with a map (FORKSPACE_SEED=${seed})`, { timeout: 60_000 + size * 60_000 }, async () => {
    expect.hasAssertions()
    await fc.assert(
      fc.asyncProperty(steps, async (list) => {
        const directory = await mkdtemp(join(tmpdir(), 'secrets-model-'))
        try {
          await run(list, directory)
        } finally {
          await rm(directory, { recursive: true, force: true })
        }
      }),
      { seed, numRuns: runs(15), interruptAfterTimeLimit: 25_000 + size * 30_000 },
    )
  })

  async function run(list: readonly Step[], directory: string): Promise<void> {
    const storage = makeStorage(directory)
    let opened = 0
    let current = 1
    const open = (previous: number[] = []): Promise<Engine> =>
      openEngine({
        storage,
        environment: fixedEnvironment({ seed: seed + opened++ }),
        secrets: { masterKey: key(current), previousKeys: previous.map(key) },
      })
    let engine = await open()
    let known: Known[] = []
    const reopen = async (previous?: number[]): Promise<void> => {
      await engine.close()
      engine = await open(previous)
      for (const one of known) one.session = await engine.sessions.open(one.session.id)
    }
    const create = async (): Promise<void> => {
      const made = await engine.sessions.create()
      await made.checkpoint({ checkpointLabel: 'start' })
      known.push({ session: made, secrets: new Map() })
    }
    while (known.length < 2) await create()
    try {
      for (const step of list) {
        if (step.kind === 'reopen') {
          if (lasting) await reopen()
          continue
        }
        const one = known[step.session % known.length]!
        await carryOut(step, one)
        if (known.includes(one)) await check(one)
      }
      if (lasting) await reopen()
      for (const one of known) await check(one)
    } finally {
      await engine.close()
    }

    async function carryOut(step: Exclude<Step, { kind: 'reopen' }>, one: Known): Promise<void> {
      const { secrets } = one.session
      switch (step.kind) {
        case 'put':
          one.secrets.set(step.name, step.value)
          await secrets.put({ secretName: step.name, secretValue: step.value })
          return
        case 'delete': {
          const deleted = await secrets.delete({ secretName: step.name }).catch(reasonOf)
          expect(deleted === 'SECRET_NOT_FOUND').toBe(!one.secrets.delete(step.name))
          return
        }
        case 'fork': {
          const fork = await one.session.fork()
          await fork.checkpoint({ checkpointLabel: 'start' })
          known.push({ session: fork, secrets: new Map() })
          return
        }
        case 'restore':
          await one.session.restore({ checkpointLabel: 'start' })
          return
        case 'remove':
          await one.session.delete()
          known = known.filter((other) => other !== one)
          if (known.length === 0) await create()
          return
        case 'rotate': {
          if (!lasting) return
          const before = current++
          await reopen([before])
          // Without reading first, since some of the sessions have not loaded their secrets.
          const changes = [
            one.session.secrets.put({ secretName: step.name, secretValue: 'before' }),
            engine.rotateSecrets(),
            one.session.secrets.put({ secretName: 'A', secretValue: 'after' }),
          ]
          one.secrets.set(step.name, 'before').set('A', 'after')
          await Promise.all(changes)
          await reopen()
        }
      }
    }
  }

  async function check({ session: { secrets }, secrets: expected }: Known): Promise<void> {
    const { secrets: listed } = await secrets.list()
    const found = new Map<string, string>()
    for (const { secretName } of listed)
      found.set(secretName, (await secrets.get({ secretName })).secretValue.reveal())
    expect(found).toEqual(expected)
    for (const one of ['A', 'a', '__proto__', 'ä', 'A B']) {
      if (!expected.has(one))
        expect(await secrets.get({ secretName: one }).catch(reasonOf)).toBe('SECRET_NOT_FOUND')
    }
  }
})

function reasonOf(error: unknown): string {
  if (error instanceof EngineError) return error.reason
  throw error
}
