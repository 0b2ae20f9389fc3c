import { runBitrot } from './bitrot.js'
import { runCloses } from './closes.js'
import type { Fate } from './damage.js'
import { runFills } from './enospc.js'
import { runFileChanges } from './files.js'
import { runFaults } from './iofault.js'
import { hasPostgres } from '../support/postgres-server.js'
import { runPostgresFaults } from './postgres.js'
import { runCollectFaults, type CollectFaultResult } from './postgres-collect.js'
import { runSharedFaults, type SharedFaultResult } from './postgres-shared.js'
import { runSoak } from './soak.js'
import { openSimStore } from './sim-store.js'
import { runSimulations } from './sim.js'
import { runPowerCuts, whyNoPowerCuts } from './power.js'

export interface LoopOptions {
  readonly n: number
  readonly minutes: number
  readonly seed: number
  /** The number of engines that share a store. */
  readonly engines: number
  /** Whether these engines also collect the store. */
  readonly collect: boolean
  /** Whether the store has its large contents in a bucket. */
  readonly blobs: boolean
  readonly onProgress: (line: string) => void
}

interface Loop {
  readonly form: string
  readonly text: string
  /** The default. */
  readonly n: number
  /** The result line, and whether the loop failed. */
  run(options: LoopOptions): Promise<{ readonly line: string; readonly failed: boolean }>
}

export type LoopName = keyof typeof loops

/** Loops over stores whose disks fail. */
export const loops = {
  enospc: {
    form: '[--n 200] [--seed 1]',
    text: 'fills a small disk n times under one engine, and makes space again',
    n: 200,
    run: async ({ n, ...options }) => {
      const result = await runFills({ ...options, fills: n })
      if (result === undefined) return { line: 'skipped: nothing can be mounted here', failed: false }
      const { fills, full, acknowledged, lost, torn, resumed, stuck } = result
      return {
        line:
          `${count(fills)} fills, ${count(full)} said so, ${count(acknowledged)} acknowledged, ${count(lost)} lost, ` +
          `${count(torn)} torn, ${count(resumed)} resumed, ${count(stuck)} stuck`,
        failed: lost + torn + stuck > 0,
      }
    },
  },
  iofault: {
    form: '[--n 500] [--seed 1]',
    text: 'lets a call of the disk fail, once or for ever, until n have',
    n: 500,
    run: async ({ n, ...options }) => {
      const result = await runFaults({ ...options, faults: n })
      const { faults, acknowledged, lost, torn, resumed, stuck, refusedOpens } = result
      return {
        line:
          `${count(faults)} faults, ${count(acknowledged)} acknowledged, ${count(lost)} lost, ${count(torn)} torn, ` +
          `${count(resumed)} resumed, ${count(stuck)} stuck, ${count(refusedOpens)} opens refused`,
        failed: lost + torn + stuck > 0,
      }
    },
  },
  bitrot: {
    form: '[--n 10000] [--seed 1]',
    text: 'changes n bits and bytes of stores, and reads everything in them',
    n: 10_000,
    run: async ({ n, ...options }) => {
      const { flips, copies } = await runBitrot({ ...options, flips: n })
      return { line: `${count(flips)} flips, ${fatesOf(copies)}`, failed: copies.wrong > 0 }
    },
  },
  files: {
    form: '[--n 3] [--seed 1]',
    text: 'deletes, empties, cuts and replaces each file of n stores',
    n: 3,
    run: async ({ n, ...options }) => {
      const { changes, copies } = await runFileChanges({ ...options, stores: n })
      return { line: `${count(changes)} changes, ${fatesOf(copies)}`, failed: copies.wrong > 0 }
    },
  },
  close: {
    form: '[--n 1000] [--seed 1]',
    text: 'closes engines n times while calls are under way',
    n: 1000,
    run: async ({ n, ...options }) => {
      const { closes, acknowledged, late, lost, torn } = await runCloses({ ...options, closes: n })
      return {
        line:
          `${count(closes)} closes, ${count(acknowledged)} acknowledged, ${count(late)} too late, ` +
          `${count(lost)} lost, ${count(torn)} torn`,
        failed: lost + torn > 0,
      }
    },
  },
  sim: {
    form: '[--seeds 10000] [--seed 1]',
    text: 'simulates stores on disks that crash and fail, the first one with the seed itself',
    n: 10_000,
    run: async ({ n, ...options }) => {
      const result = await runSimulations({ ...options, seeds: n, open: openSimStore })
      const { seeds, commits, crashes, faults, recoveries, failed, perSecond } = result
      return {
        line:
          `${count(seeds)} seeds, ${count(failed.length)} failed, ${count(commits)} commits, ${count(crashes)} crashes, ` +
          `${count(faults)} faults, ${count(recoveries)} recoveries, ${count(Math.round(perSecond))} seeds a second`,
        failed: failed.length > 0,
      }
    },
  },
  postgres: {
    form: '[--n 60] [--seed 1] [--engines 1] [--collect] [--blobs s3]',
    text: 'kills writers, kills the server, cuts connections, and fails over to a standby, n times in all, on PostgreSQL; or with several engines, kills and suspends one, also while they collect the store; with s3, also kills the server of the bucket',
    n: 60,
    run: async ({ n, ...options }) => {
      if (!hasPostgres) return { line: 'skipped: PostgreSQL is not installed', failed: false }
      if (options.collect) return collectLine(await runCollectFaults({ ...options, faults: n }))
      if (options.engines > 1) return sharedLine(await runSharedFaults({ ...options, faults: n }))
      const { faults, acknowledged, lost, torn, resumed, stuck } = await runPostgresFaults({
        ...options,
        faults: n,
      })
      return {
        line:
          `${count(faults.writer)} writers killed, ${count(faults.server)} servers killed, ${count(faults.cut)} cuts, ` +
          `${count(faults.failover)} failovers, ${options.blobs ? `${count(faults.bucket)} buckets killed, ` : ''}` +
          `${count(acknowledged)} acknowledged, ${count(lost)} lost, ` +
          `${count(torn)} torn, ${count(resumed)} resumed, ${count(stuck)} stuck`,
        failed: lost + torn + stuck > 0,
      }
    },
  },
  soak: {
    form: '[--minutes 30] [--seed 1]',
    text: 'uses stores for some time, and looks whether memory, descriptors or files grow',
    n: 1,
    run: async (options) => {
      const { operations, rejections, slopes } = await runSoak(options)
      for (const { what, perMinute, mean, grows } of slopes) {
        const figures = `${mean.toFixed(1)}, ${perMinute.toFixed(2)} more a minute`
        options.onProgress(`${what.padEnd(20)} ${figures}${grows ? ', GROWS' : ''}`)
      }
      const growing = slopes.filter(({ grows }) => grows).map(({ what }) => what)
      return {
        line:
          `${count(operations)} operations, ${count(rejections)} rejections that nobody handles, ` +
          (growing.length === 0 ? 'nothing grows' : `${growing.join(', ')} grow`),
        failed: rejections + growing.length > 0,
      }
    },
  },
  power: {
    form: '[--n 50] [--seed 1]',
    text: 'cuts a file system off its disk n times while a process writes to it; for root',
    n: 50,
    run: async ({ n, ...options }) => {
      const reason = await whyNoPowerCuts()
      if (reason !== undefined) return { line: `skipped: ${reason}`, failed: false }
      const { cuts, acknowledged, lost, torn } = await runPowerCuts({ ...options, cuts: n })
      return {
        line: `${count(cuts)} cuts, ${count(acknowledged)} acknowledged, ${count(lost)} lost, ${count(torn)} torn`,
        failed: lost + torn > 0,
      }
    },
  },
} satisfies Record<string, Loop>

function sharedLine({ faults, acknowledged, lost, twice, wrong, refused }: SharedFaultResult): {
  readonly line: string
  readonly failed: boolean
} {
  return {
    line:
      `${count(faults.killed)} engines killed, ${count(faults.suspended)} suspended, ${count(acknowledged)} acknowledged, ` +
      `${count(lost)} lost, ${count(twice)} applied twice, ${count(wrong)} wrong, ${count(refused)} refused`,
    failed: lost + twice + wrong > 0,
  }
}

function collectLine({ faults, collections, sessions, lost, wrong }: CollectFaultResult): {
  readonly line: string
  readonly failed: boolean
} {
  return {
    line:
      `${count(faults.killed)} engines killed, ${count(faults.suspended)} suspended, ${count(collections)} collections, ` +
      `${count(sessions)} sessions, ${count(lost)} lost, ${count(wrong)} wrong`,
    failed: lost + wrong > 0,
  }
}

function fatesOf({ refused, reported, harmless, wrong }: Record<Fate, number>): string {
  return `${count(refused)} refused, ${count(reported)} reported, ${count(harmless)} harmless, ${count(wrong)} silently wrong`
}

export function isLoop(name: string): name is LoopName {
  return Object.hasOwn(loops, name)
}

export function loopForms(): string {
  return Object.entries<Loop>(loops)
    .map(([name, { form }]) => `npm run crash -- ${name} ${form}`)
    .join('\n')
}

export function loopTexts(): string {
  return Object.entries<Loop>(loops)
    .map(([name, { text }]) => `  ${name.padEnd(8)}  ${text}`)
    .join('\n')
}

export function count(value: number): string {
  return value.toLocaleString('en-US')
}
