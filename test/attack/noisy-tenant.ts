import { setTimeout as pause } from 'node:timers/promises'
import { present } from '../../src/engine/base/present.js'
import { operations, type Operation } from '../../src/engine/contract.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import { content, directory } from './full-session.js'
import { head, HttpTarget, otherToken, type Started } from './http-target.js'

/** The live memory that the requests of one tenant may take, with the default limits. */
const allowedBytes = 700 * 2 ** 20
/** After so many requests, the driver looks at the memory and at the other tenant. */
const requestsPerLook = 20
/** An answer to another tenant takes at most this long in the long form. The short one may run next to other tests. */
const patienceMs = 5000
const shortPatienceMs = 60_000

/** The newest state. */
const at = { checkpointLabel: content.checkpoint }

type Requested = Readonly<Record<string, unknown>>

/** The bodies of reads that are no GET requests, and of changes that return more than they are given. */
const bodies: Readonly<Record<string, Requested>> = {
  diff: { from: { base: true }, pageSize: 10_000 },
  diffFiles: { from: { base: true }, pageSize: 10_000 },
  readFileAt: { path: content.file, at },
  statPathAt: { path: content.file, includeContentHash: true, at },
  listDirectoryAt: { path: '/', recursive: true, pageSize: 10_000, at },
  getManifestAt: { pageSize: 10_000, at },
  blame: { path: content.text },
  getCasExtents: { path: content.file },
  readFile: { path: content.file },
  statPath: { path: content.file, includeContentHash: true },
  listDirectory: { path: '/', recursive: true, pageSize: 10_000 },
  getXattr: { path: content.text, name: 'user.large' },
  listXattrs: { path: content.text },
  readLines: { path: content.text },
  globPaths: { patterns: ['**'] },
  grepFiles: { pattern: 'x', limit: 10_000 },
  listFileLocks: {},
  generateCommitSummary: {},
  batchGetCache: { keys: [content.key] },
  compareAndSetCacheEntry: { key: content.key, newValue: '' },
  undo: { dryRun: true },
  resolveConflicts: { use: 'theirs' },
}

/** Changes that have an effect only once. */
const once: ReadonlySet<string> = new Set(['resolveConflicts'])
/** Requests to the session with an open merge. */
const toConflicted: ReadonlySet<string> = new Set(['listConflicts', 'readConflict', 'resolveConflicts'])

const queries: Readonly<Record<string, string>> = {
  listPathHistory: `?path=${encodeURIComponent(content.file)}&pageSize=10000`,
  readConflict: `?path=${encodeURIComponent(`${directory}/0`)}`,
  readSymlink: `?path=${encodeURIComponent(`${directory}/link0`)}`,
}

/** GET requests for records that this engine does not have. Streams have limits of their own. */
const others: ReadonlySet<string> = new Set(['getCommit', 'getUsage', 'readCommitFile'])

/** The short form has fewer records. */
const shortShare = 0.05

/** Sends each kind of read many times at once and reads no response. The other tenant must still be answered. */
export async function noisyTenant({ n, onProgress }: AttackOptions): Promise<AttackResult> {
  const isShort = n < requestsPerLook
  await using target = await HttpTarget.start({ fullShare: isShort ? shortShare : 1 })
  const base = (await target.figures()).liveBytes
  const failures: string[] = []
  let [peak, slowest, count] = [0, 0, 0]
  for (const [name, operation] of Object.entries<Operation>(operations)) {
    const request = requestOf(target.started, name, operation)
    if (request === undefined) continue
    count++
    const status = once.has(name) ? 200 : await answerTo(target, request)
    if (status !== 200) failures.push(`${name}: status ${status}`)
    const sending = Promise.all(Array.from({ length: n }, async () => (await target.open()).write(request)))
    let [most, worst] = [0, 0]
    for (let look = 0; look < n / requestsPerLook; look++) {
      const began = performance.now()
      const other = await target.status(`/v1/sessions/${target.started.otherSessionId}/manifest`, otherToken)
      worst = Math.max(worst, performance.now() - began)
      if (other !== 200) failures.push(`${name}: status ${other} for the other tenant`)
      most = Math.max(most, (await target.figures()).liveBytes - base)
      await pause(20)
    }
    await sending
    onProgress(`${name}: ${Math.round(most / 2 ** 20)} MiB more at most, ${Math.round(worst)} ms at most`)
    if (most > allowedBytes) failures.push(`${name}: memory`)
    if (worst > (isShort ? shortPatienceMs : patienceMs)) failures.push(`${name}: the other tenant waited`)
    ;[peak, slowest] = [Math.max(peak, most), Math.max(slowest, worst)]
    await target.closeAll()
  }
  return {
    line: `${count} operations, ${n} unread responses of each, ${Math.round(peak / 2 ** 20)} MiB more at most, the other tenant waited ${Math.round(slowest)} ms at most; failed: ${failures.join(', ') || 'none'}`,
    failed: failures.length > 0,
  }
}

/** Requests of earlier operations may still be executed, although their clients are gone. A tenant must then wait for itself. */
async function answerTo(target: HttpTarget, request: string): Promise<number> {
  for (;;) {
    const status = await target.answer(request)
    if (status !== 504) return status
  }
}

/** The bytes of a request, or undefined for operations that are no part of the attack. */
function requestOf(
  { sessionId, full }: Started,
  name: string,
  { method, path, query = [], stream }: Operation,
): string | undefined {
  const body = bodies[name]
  if (stream === true || others.has(name) || (method !== 'GET' && body === undefined)) return undefined
  const ids: Readonly<Record<string, string | undefined>> = {
    sessionId: toConflicted.has(name) ? full?.conflictedSessionId : sessionId,
    key: content.key,
    ...full,
  }
  const url = path.replaceAll(/\{(\w+)\}/g, (_, parameter: string) => present(ids[parameter], parameter))
  if (method === 'GET')
    return head('GET', url + (queries[name] ?? (query.includes('pageSize') ? '?pageSize=10000' : '')))
  const json = JSON.stringify(body)
  const length = `content-length: ${Buffer.byteLength(json)}`
  return head(method, url, 'content-type: application/json', length) + json
}
