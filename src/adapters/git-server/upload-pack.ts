import { Buffer } from 'node:buffer'
import { EngineError, TimeSlice, type Clock, type RepositoryHead } from '../../engine/ports.js'
import type { SessionRepository } from '../../engine/contract.js'
import {
  bandPackets,
  delimiterPacket,
  flushPacket,
  gitLimits,
  newObjects,
  packet,
  streamPack,
  type EntryCache,
} from '../git/parts.js'
import { checkpointPrefix, checkpointRefs, formatOfHead, servedRef } from './advertisement.js'
import { CommitGraph, parentsFirst, planFetch, type FetchPlan, type GraphCommit } from './fetch-plan.js'
import type { FetchRequest, RefsRequest } from './fetch-request.js'
import { textOf } from './responses.js'

/** The answer to `ls-refs`. */
export async function listRefs(
  repository: SessionRepository,
  { prefixes, symrefs, unborn }: RefsRequest,
  signal: AbortSignal,
): Promise<Buffer> {
  const { commitId } = await repository.head(signal)
  const isWanted = prefixes.length === 0 ? () => true : startsWithAny(prefixes)
  const symref = symrefs ? ` symref-target:${servedRef}` : ''
  const lines: string[] = []
  if (isWanted('HEAD')) {
    if (commitId !== null) lines.push(`${commitId} HEAD${symref}`)
    else if (unborn) lines.push(`unborn HEAD${symref}`)
  }
  if (commitId !== null && isWanted(servedRef)) lines.push(`${commitId} ${servedRef}`)
  // Their commits are made now, so only for clients that want them.
  const wantsCheckpoints =
    prefixes.length === 0 ||
    prefixes.some((prefix) => prefix.startsWith(checkpointPrefix) || checkpointPrefix.startsWith(prefix))
  if (wantsCheckpoints) {
    for (const [name, oid] of checkpointRefs(await repository.checkpoints(signal)))
      if (isWanted(name)) lines.push(`${oid} ${name}`)
  }
  return Buffer.concat([...lines.map((line) => packet(`${line}\n`)), flushPacket])
}

/** Whether a name begins with one of many prefixes. Its cost depends on the lengths of the prefixes, not on their number. */
function startsWithAny(prefixes: readonly string[]): (name: string) => boolean {
  const known = new Set(prefixes)
  const lengths = [...new Set(prefixes.map(({ length }) => length))]
  return (name) => lengths.some((length) => length <= name.length && known.has(name.slice(0, length)))
}

/** A fetch whose commits are known. */
interface PlannedFetch {
  readonly repository: SessionRepository
  readonly head: RepositoryHead
  readonly graph: CommitGraph
  readonly plan: FetchPlan
  readonly slice: TimeSlice
  readonly cache: EntryCache
}

export async function prepareFetch(
  repository: SessionRepository,
  request: FetchRequest,
  {
    signal,
    cache,
    clock,
  }: { readonly signal: AbortSignal; readonly cache: EntryCache; readonly clock: Clock },
): Promise<PlannedFetch> {
  const head = await repository.served(signal)
  const slice = new TimeSlice(clock, signal)
  const graph = new CommitGraph(repository.objects, head.base, slice)
  const offered = head.commitId === null ? new Set<string>() : await graph.closure([head.commitId])
  let missing = [...request.wants].filter((id) => !offered.has(id))
  if (missing.length > 0) {
    const checkpoints = new Set((await repository.checkpoints(signal)).map(({ commitId }) => commitId))
    missing = missing.filter((id) => !checkpoints.has(id))
  }
  const [first] = missing
  if (first !== undefined)
    throw new EngineError('GIT_REF_NOT_FOUND', `the session has no commit ${first}; fetch again`, {
      objectId: first,
    })
  return { repository, head, graph, plan: await planFetch(graph, request), slice, cache }
}

/** The answer to `fetch` in version 2. */
export async function* answerV2(fetch: PlannedFetch, request: FetchRequest): AsyncGenerator<Buffer, void> {
  const { common } = fetch.plan
  if (!request.isDone) {
    yield packet('acknowledgments\n')
    // The history is short. Every common commit tells enough.
    const isReady = common.length > 0
    yield Buffer.concat(common.map((id) => packet(`ACK ${id}\n`)))
    if (!isReady) {
      yield packet('NAK\n')
      yield flushPacket
      return
    }
    yield packet('ready\n')
    yield delimiterPacket
  }
  const { shallow, unshallow } = fetch.plan
  if (shallow.length + unshallow.length > 0 || request.depth > 0) {
    yield packet('shallow-info\n')
    yield shallowLines(fetch.plan)
    yield delimiterPacket
  }
  yield packet('packfile\n')
  yield* banded(packOf(fetch))
}

/** The answer in version 0. */
export async function* answerV0(fetch: PlannedFetch, request: FetchRequest): AsyncGenerator<Buffer, void> {
  const { common } = fetch.plan
  const last = common.at(-1)
  if (request.depth > 0) {
    yield shallowLines(fetch.plan)
    yield flushPacket
  }
  if (!request.isDone && !request.asksCommon) return
  if (request.multiAck) yield Buffer.concat(common.map((id) => packet(`ACK ${id} common\n`)))
  if (request.multiAck && !request.isDone) {
    if (last !== undefined) yield packet(`ACK ${last} ready\n`)
    yield packet('NAK\n')
    return
  }
  yield packet(last === undefined ? 'NAK\n' : `ACK ${last}\n`)
  if (!request.isDone) return
  if (request.sideBand) yield* banded(packOf(fetch))
  else yield* packOf(fetch)
}

function shallowLines({ shallow, unshallow }: FetchPlan): Buffer {
  return Buffer.concat([
    ...shallow.map((id) => packet(`shallow ${id}\n`)),
    ...unshallow.map((id) => packet(`unshallow ${id}\n`)),
  ])
}

async function* packOf(fetch: PlannedFetch): AsyncGenerator<Buffer, void> {
  const oids = await objectsOf(fetch)
  const { repository, head, slice, cache } = fetch
  yield* streamPack({ objects: repository.objects, oids, format: formatOfHead(head), slice, cache })
}

/** The ids of all objects of the sent commits, without those that the client has at the same path. */
async function objectsOf({
  repository,
  head,
  graph,
  plan,
  slice,
}: PlannedFetch): Promise<ReadonlySet<string>> {
  const { objects } = repository
  const send = new Set(plan.send)
  const oids = new Set<string>(send)
  const from = { objects, slice, format: formatOfHead(head) }
  const [anyKnown] = plan.known
  const commits = new Map<string, GraphCommit>()
  for (const id of plan.send) commits.set(id, await graph.get(id))
  // A tree that was sent is complete only if the tree before it is.
  for (const id of await parentsFirst(commits, slice)) {
    const { treeId, parents } = await graph.get(id)
    const before = parents.find((parent) => send.has(parent) || plan.known.has(parent)) ?? anyKnown
    const beforeTree = before === undefined ? undefined : (await graph.get(before)).treeId
    const isSkipped = (tree: string): boolean => oids.has(tree)
    for await (const { oid } of newObjects(from, treeId, { before: beforeTree, isSkipped })) {
      oids.add(oid)
      if (oids.size > gitLimits.objects)
        throw new EngineError('GIT_TOO_LARGE', `the pack has over ${gitLimits.objects} objects`, {
          limit: String(gitLimits.objects),
        })
    }
  }
  return oids
}

/** Pieces in the data band. An error goes to the error band, because the answer has begun. */
async function* banded(pieces: AsyncGenerator<Buffer, void>): AsyncGenerator<Buffer, void> {
  try {
    for await (const piece of pieces) yield bandPackets(1, piece)
  } catch (error) {
    yield bandPackets(3, Buffer.from(`${textOf(error)}\n`))
    throw error
  }
  yield flushPacket
}
