import { itemAt } from '../base/present.js'
import { given } from '../base/input.js'
import { invalid } from '../base/errors.js'
import { Shape } from '../base/shape.js'
import { limits } from '../base/limits.js'
import { TimeSlice } from '../base/cooperative.js'
import { parseTime } from '../base/time.js'
import { lastActivities } from '../session/table/activity.js'
import { inBackground, type Core } from '../session/core.js'
import { usageRollups } from '../session/usage/usage-rollup.js'
import { sessionKind } from '../records/session.js'
import { keys, prefixEnd } from '../storage/keys.js'

/** The values of `granularity` in a usage request. They do not change the figures. */
export const UsageGranularity = {
  /** By hour. */
  HOUR: 'hour',
  /** By day, the default. */
  DAY: 'day',
  /** By month. */
  MONTH: 'month',
} as const
/** One of the values of {@link UsageGranularity}. */
export type UsageGranularity = (typeof UsageGranularity)[keyof typeof UsageGranularity]

/** The request of `engine.usage.get`. */
export interface UsageRequest {
  /** RFC 3339 time. The window includes it. */
  readonly windowStart: string
  /** RFC 3339 time after `windowStart`. The window does not include it. */
  readonly windowEnd: string
  /** The result repeats this value; the figures always cover the whole window. `day` by default. */
  readonly granularity?: UsageGranularity
}

/** The resource usage of a tenant in a time window. */
export interface Usage {
  /** The id of the tenant. */
  readonly tenantId: string
  /** The start of the window, as in the request. */
  readonly windowStart: string
  /** The end of the window, as in the request. */
  readonly windowEnd: string
  /** As in the request. */
  readonly granularity: string
  /** The version of the calculation. Figures of different versions are not comparable. */
  readonly aggregationVersion: number
  /** Hours of all sessions. Each session counts from its creation to its last activity, within the window. */
  readonly sessionHours: number
  /** Stored contents over time: 1 is 10^9 bytes for 30 days. */
  readonly storageGbMonth: number
  /** Bytes that adapters sent to clients: 1 is 10^9 bytes. */
  readonly egressGb: number
}

/** The contents that a tenant stores. */
export interface CasMetrics {
  /** Number of stored contents. Equal contents count once on a durable storage. */
  readonly objectCount: number
  /** Bytes of the stored contents, each counted once. */
  readonly storedBytes: number
  /** Bytes of the stored contents, each counted as often as it was written. */
  readonly logicalBytes: number
  /** `logicalBytes` divided by `storedBytes`; 1 if nothing is stored. */
  readonly dedupRatio: number
}

const aggregationVersion = 1
const hourMs = 3_600_000
const monthMs = 30 * 24 * hourMs
const gigabyte = 1e9
const minuteMs = 60_000

/** Bytes sent to a tenant's clients in one minute that are not stored yet. */
interface Sent {
  readonly core: Core
  readonly minute: number
  bytes: number
  /** The total that a failed commit tried to store. It may have been stored. */
  tried?: number
}

/** The resource usage of tenants, computed from records. */
export class UsageMeter {
  /** The current minute of each tenant, by tenant. */
  readonly #sending = new Map<string, Sent>()
  /** Minutes that could not be stored, oldest first. */
  readonly #unstored: Sent[] = []
  /** One store operation at a time, because each adds to the total that the previous one stored. */
  #storing: Promise<void> = Promise.resolve()

  async usage(core: Core, { windowStart, windowEnd, granularity }: Required<UsageRequest>): Promise<Usage> {
    const start = parseTime('windowStart', windowStart)
    const end = parseTime('windowEnd', windowEnd)
    await this.flush().catch((error: unknown) => {
      // The rest is stored later. The stored part can be reported now.
      if (!core.fence.closed) throw error
    })
    return {
      tenantId: core.tenant,
      windowStart,
      windowEnd,
      granularity,
      aggregationVersion,
      sessionHours: (await sessionMs(core, start, end)) / hourMs,
      storageGbMonth: (await storedByteMs(core, start, end)) / gigabyte / monthMs,
      egressGb: (await this.#egressBytes(core, start, end)) / gigabyte,
    }
  }

  async metrics(core: Core): Promise<CasMetrics> {
    // The amounts of a store in memory are not in the store, so only this read fails if it is closed.
    await core.store.get(keys.session(core.tenantKey, ''))
    let [objectCount, storedBytes, logicalBytes] = [0, 0, 0]
    const slice = new TimeSlice(core.environment)
    for await (const { until, bytes, count, writtenBytes } of core.store.amounts()) {
      objectCount += count
      if (until === undefined) storedBytes += bytes
      logicalBytes += writtenBytes
      if (slice.over) await slice.next()
    }
    return {
      objectCount,
      storedBytes,
      logicalBytes,
      dedupRatio: storedBytes === 0 ? 1 : logicalBytes / storedBytes,
    }
  }

  /**
   * Call this after sending bytes to a tenant's client. They are stored after the end of the minute, and on
   * close.
   */
  sent(core: Core, bytes: number): void {
    const minute = Math.floor(core.environment.wallClockMs() / minuteMs)
    const current = this.#sending.get(core.tenantKey)
    if (current?.minute === minute) current.bytes += bytes
    else {
      if (current !== undefined) inBackground(core, this.#flush(current))
      this.#sending.set(core.tenantKey, { core, minute, bytes })
    }
  }

  /** Stores the bytes sent so far to the clients of all tenants. */
  async flush(): Promise<void> {
    const flushed = [...this.#sending.values()].map((sent) => this.#flush(sent))
    await Promise.all(flushed)
    if (flushed.length === 0 && this.#unstored.length > 0) await this.#store([])
    // Also waits for earlier minutes, and for what other callers are storing.
    await this.#storing
  }

  #flush(sent: Sent): Promise<void> {
    const { core } = sent
    if (this.#sending.get(core.tenantKey) === sent) this.#sending.delete(core.tenantKey)
    return this.#store([sent])
  }

  /**
   * Stores earlier bytes that could not be stored first. If this fails too, all bytes are kept for the next
   * time.
   */
  #store(more: readonly Sent[]): Promise<void> {
    const stored = this.#storing.then(async () => {
      this.#unstored.push(...more)
      for (let oldest = this.#unstored[0]; oldest !== undefined; oldest = this.#unstored[0]) {
        await storeSent(oldest)
        this.#unstored.shift()
      }
    })
    this.#storing = stored.catch(() => undefined)
    return stored
  }

  async #egressBytes(core: Core, start: number, end: number): Promise<number> {
    let bytes = 0
    const minuteOf = (time: number): number => Math.max(0, Math.ceil(time / minuteMs))
    const lt = keys.egress(core.tenantKey, minuteOf(end))
    for (let gte = keys.egress(core.tenantKey, minuteOf(start)); gte < lt;) {
      const found = await core.store.scan({ gte, lt, limit: limits.recordsPerScan })
      for (const [, text] of found) bytes += Number(text)
      if (found.length < limits.recordsPerScan) break
      gte = `${itemAt(found, -1)[0]}\0`
    }
    return bytes
  }
}

async function storeSent(sent: Sent): Promise<void> {
  const { core, minute, bytes, tried } = sent
  // Engines that share a store have records of their own, because each of them adds to its record.
  const key = keys.egress(core.tenantKey, minute) + (core.sharing?.engineId ?? '')
  const before = Number((await core.store.get(key)) ?? 0)
  if (before === tried) return
  sent.tried = before + bytes
  await core.store.commit({ put: [[key, String(sent.tried)]] })
}

async function sessionMs(core: Core, start: number, end: number): Promise<number> {
  const prefix = keys.sessions(core.tenantKey)
  let total = 0
  for (let gte = prefix; ;) {
    const found = await core.store.scan({ gte, lt: prefixEnd(prefix), limit: limits.recordsPerScan })
    const sessions = found
      .map(([, json]) => sessionKind.parse(json))
      .filter(({ createdAt }) => createdAt < end)
    const times = await lastActivities(core, sessions)
    for (const [index, { createdAt }] of sessions.entries())
      total += Math.max(0, Math.min(end, itemAt(times, index)) - Math.max(start, createdAt))
    if (found.length < limits.recordsPerScan) break
    gte = `${itemAt(found, -1)[0]}\0`
  }
  for await (const [createdAt, deletedAt, count] of usageRollups(core))
    total += count * Math.max(0, Math.min(end, deletedAt) - Math.max(start, createdAt))
  return total
}

async function storedByteMs(core: Core, start: number, end: number): Promise<number> {
  let total = 0
  const slice = new TimeSlice(core.environment)
  for await (const { at, until = end, bytes } of core.store.amounts()) {
    total += bytes * Math.max(0, Math.min(end, until) - Math.max(start, at))
    if (slice.over) await slice.next()
  }
  return total
}

const usageShape = new Shape<UsageRequest>({ windowStart: true, windowEnd: true, granularity: true })

export function parseUsage(request: UsageRequest): Required<UsageRequest> {
  const { windowStart, windowEnd, granularity = UsageGranularity.DAY } = usageShape.read(request)
  if (parseTime('windowEnd', windowEnd) <= parseTime('windowStart', windowStart))
    throw invalid('windowEnd', 'must be after windowStart')
  if (!Object.values(UsageGranularity).includes(granularity))
    throw invalid('granularity', `must be 'hour', 'day' or 'month'; it is ${given(granularity)}`)
  return { windowStart, windowEnd, granularity }
}
