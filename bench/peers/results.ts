import type { Guarantee } from './contender.js'

/** One contender in one scenario. Times are milliseconds per operation. */
export interface Row {
  readonly contender: string
  readonly family: string
  readonly guarantee: Guarantee
  readonly limit: boolean
  readonly outcome: 'measured' | 'n/a' | 'not installed' | 'failed'
  /** Warm rounds. */
  readonly rounds?: number
  /** The first run in a fresh process. */
  readonly cold?: number
  readonly coldCpu?: number
  /** The medians of the warm rounds. */
  readonly wall?: number
  readonly cpu?: number
  readonly bytes?: number
  readonly rssBytes?: number
  readonly heapBytes?: number
  /** How many times as much CPU time, or memory, as the best contender of the same guarantee and another family. */
  readonly toPeer?: number
  /** How many times as much CPU time, or memory, as the limit of the guarantee. */
  readonly toLimit?: number
  /** Wrong answers and errors. */
  readonly notes: readonly string[]
}

export interface Table {
  readonly scenario: string
  readonly title: string
  readonly unit: 'time' | 'bytes'
  readonly rows: readonly Row[]
}

export interface Report {
  readonly node: string
  /** The processor, memory and system. Files of earlier versions have none. */
  readonly machine?: string
  readonly tables: readonly Table[]
}

/** The cheapest variant of forkspace with a guarantee, and its cheapest peer. */
export interface Comparison {
  readonly guarantee: Guarantee
  readonly own: Row
  readonly peer: Row
}

/** Compares forkspace with its peers, for each guarantee that both have. */
export function comparisons({ rows }: Table): Comparison[] {
  const guarantees = ['memory', 'survives kill -9', 'survives power loss'] as const
  return guarantees.flatMap((guarantee) => {
    // The rows are sorted, the cheapest first. A cost of zero is below the steps of the clock.
    const able = rows.filter((row) => !row.limit && row.guarantee === guarantee && (costOf(row) ?? 0) > 0)
    const own = able.find(({ family }) => family === 'forkspace')
    const peer = able.find(({ family }) => family !== 'forkspace')
    return own === undefined || peer === undefined ? [] : [{ guarantee, own, peer }]
  })
}

/** The figure that ratios compare: CPU time, or bytes of memory. */
export function costOf({ bytes, cpu }: Row): number | undefined {
  return bytes ?? cpu
}

/** Adds the ratios to the rows and sorts them, cheapest first. Rows without a figure come last. */
export function ranked(rows: readonly Row[]): Row[] {
  return rows
    .map((row) => {
      const cost = costOf(row)
      if (cost === undefined) return row
      const peer = bestPeer(row, rows)
      const limit = limitOf(row, rows)
      return {
        ...row,
        ...(peer !== undefined && { toPeer: cost / peer }),
        ...(limit !== undefined && { toLimit: cost / limit }),
      }
    })
    .sort((one, other) => (costOf(one) ?? Infinity) - (costOf(other) ?? Infinity))
}

function bestPeer(row: Row, rows: readonly Row[]): number | undefined {
  if (row.limit) return undefined
  const peers = rows.filter(
    ({ limit, family, guarantee }) => !limit && family !== row.family && guarantee === row.guarantee,
  )
  return least(peers)
}

/** Plain files have the guarantee of one `pwrite`. Where a limit has no such call, memory is the limit. */
function limitOf(row: Row, rows: readonly Row[]): number | undefined {
  const guarantee = row.guarantee === 'host' ? 'survives kill -9' : row.guarantee
  const limits = rows.filter(({ limit }) => limit)
  return (
    least(limits.filter((limit) => limit.guarantee === guarantee)) ??
    least(limits.filter((limit) => limit.guarantee === 'memory'))
  )
}

function least(rows: readonly Row[]): number | undefined {
  const costs = rows.map(costOf).filter((cost) => cost !== undefined && cost > 0)
  return costs.length === 0 ? undefined : Math.min(...(costs as number[]))
}
