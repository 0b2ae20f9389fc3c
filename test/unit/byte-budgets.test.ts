/** The counts of stored bytes alone, against a plain model. */
import { describe, expect, test } from 'vitest'
import { ByteBudgets, type BudgetedBlob } from '../../src/engine/storage/byte-budgets.js'
import { randomWords } from '../../src/testing.js'
import { seed } from '../support/seed.js'

const limits = { storeBytes: 300, tenantBytes: 200 }
const tenants = ['A', 'B', 'C']

/** The budget that refuses the contents; undefined: none. */
function refusal(budgets: ByteBudgets, tenant: string, blobs: readonly BudgetedBlob[]): unknown {
  try {
    budgets.admit(tenant, blobs)
    return undefined
  } catch (error) {
    return (error as { readonly details: { readonly budget: string } }).details.budget
  }
}

describe.each([true, false])(
  `byte budgets that count equal contents once: %s (FORKSPACE_SEED=${seed})`,
  (once) => {
    /** The bytes by tenant and content; with a new name for each write if they count each time. */
    function model(): {
      readonly add: (tenant: string, blobs: readonly BudgetedBlob[]) => void
      readonly refusal: (tenant: string, blobs: readonly BudgetedBlob[]) => unknown
    } {
      let writes = 0
      const all = new Map(tenants.map((tenant) => [tenant, new Map<string, number>()]))
      const added = (tenant: string, blobs: readonly BudgetedBlob[]): Map<string, number> => {
        const next = new Map(all.get(tenant))
        for (const { hash, length } of blobs) next.set(once ? hash : `${writes++}`, length)
        return next
      }
      const sum = (sizes: Iterable<number> = []): number => [...sizes].reduce((a, b) => a + b, 0)
      return {
        add: (tenant, blobs) => void all.set(tenant, added(tenant, blobs)),
        refusal: (tenant, blobs) => {
          const before = sum(all.get(tenant)?.values())
          const after = sum(added(tenant, blobs).values())
          if (after === before) return undefined
          if (after > limits.tenantBytes) return 'tenantBytes'
          const others = tenants.filter((one) => one !== tenant)
          const total = after + sum(others.map((one) => sum(all.get(one)?.values())))
          return total > limits.storeBytes ? 'storeBytes' : undefined
        },
      }
    }

    test('agree with the model', () => {
      const next = randomWords(seed)
      const seen = new Set<unknown>()
      for (let round = 0; round < 20; round++) {
        const budgets = new ByteBudgets(limits, once)
        const plain = model()
        for (let step = 0; step < 30; step++) {
          const tenant = tenants[next() % 3]!
          const blobs = Array.from({ length: next() % 4 }, () => {
            const at = next() % 12
            return { hash: at.toString(16).padEnd(64, '0'), length: at * 5 }
          })
          const expected = plain.refusal(tenant, blobs)
          expect(refusal(budgets, tenant, blobs)).toBe(expected)
          seen.add(expected)
          if (expected !== undefined) continue
          budgets.add(tenant, blobs)
          plain.add(tenant, blobs)
        }
      }
      expect(seen).toEqual(new Set([undefined, 'tenantBytes', 'storeBytes']))
    })

    const blob = (name: string, length: number): BudgetedBlob => ({ hash: name.padEnd(64, '0'), length })

    test('admit exactly the budget', () => {
      const budgets = new ByteBudgets({ tenantBytes: 10 }, once)
      expect(refusal(budgets, 'A', [blob('1', 10)])).toBeUndefined()
      expect(refusal(budgets, 'A', [blob('1', 11)])).toBe('tenantBytes')
      const store = new ByteBudgets({ storeBytes: 10 }, once)
      store.add('A', [blob('1', 4)])
      expect(refusal(store, 'B', [blob('1', 6)])).toBeUndefined()
      expect(refusal(store, 'B', [blob('1', 7)])).toBe('storeBytes')
    })

    test('keep the old counts during a recount, and then have those that were added meanwhile', async () => {
      const budgets = new ByteBudgets({ tenantBytes: 10 }, once)
      budgets.add('A', [blob('1', 9)])
      let end!: () => void
      const recount = budgets.recount(async (next) => {
        next.add('A', [blob('2', 3)])
        await new Promise<void>((resolve) => (end = resolve))
      })
      await Promise.resolve()
      budgets.add('A', [blob('3', 1)])
      expect(refusal(budgets, 'A', [blob('4', 1)])).toBe('tenantBytes')
      end()
      await recount
      expect(refusal(budgets, 'A', [blob('4', 6)])).toBeUndefined()
      expect(refusal(budgets, 'A', [blob('4', 7)])).toBe('tenantBytes')
      budgets.add('A', [blob('5', 6)])
      expect(refusal(budgets, 'A', [blob('6', 1)])).toBe('tenantBytes')
    })

    test('drop a recount that was forgotten, and one that failed, and run the next', async () => {
      const budgets = new ByteBudgets({ tenantBytes: 10 }, once)
      await budgets.recount(async (next) => {
        next.add('A', [blob('1', 9)])
        budgets.forget()
      })
      expect(refusal(budgets, 'A', [blob('2', 10)])).toBeUndefined()
      budgets.add('A', [blob('2', 4)])
      const failed = budgets.recount(async (next) => {
        next.add('A', [blob('3', 9)])
        throw new Error('unreadable')
      })
      await expect(failed).rejects.toThrow('unreadable')
      expect(refusal(budgets, 'A', [blob('3', 6)])).toBeUndefined()
      expect(refusal(budgets, 'A', [blob('3', 7)])).toBe('tenantBytes')
      await budgets.recount(async (next) => next.add('A', [blob('4', 8)]))
      expect(refusal(budgets, 'A', [blob('5', 3)])).toBe('tenantBytes')
    })

    test('run one recount after the other', async () => {
      const budgets = new ByteBudgets({}, once)
      const steps: string[] = []
      const run = (name: string): Promise<void> =>
        budgets.recount(async () => {
          steps.push(`${name} begins`)
          await Promise.resolve()
          steps.push(`${name} ends`)
        })
      await Promise.all([run('one'), run('two')])
      expect(steps).toEqual(['one begins', 'one ends', 'two begins', 'two ends'])
    })
  },
)
