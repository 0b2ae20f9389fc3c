import { Buffer } from 'node:buffer'
import type { SessionRepository } from '../../engine/contract.js'
import { bandPackets, flushPacket, formatOf, packet, zeroId } from '../git/parts.js'
import { servedRef } from './advertisement.js'
import { readPushed } from './pushed-commits.js'
import type { Command, PushRequest } from './push-request.js'
import { textOf } from './responses.js'

export interface PushOutcome {
  readonly report: Buffer
  /** The error of the update of the branch, if it was refused. */
  readonly error: unknown
}

/** Carries out a push, and reports on each ref. */
export async function receive(
  repository: SessionRepository,
  request: PushRequest,
  signal: AbortSignal,
): Promise<PushOutcome> {
  const { commands, pack } = request
  const refusals = new Map<Command, string>()
  for (const command of commands) {
    const refusal = refusalOf(command)
    if (refusal !== undefined) refusals.set(command, refusal)
  }
  const accepted = commands.filter((command) => !refusals.has(command))
  const [command] = accepted
  for (const again of accepted.slice(1)) refusals.set(again, `${again.ref} is updated twice`)
  let error: unknown
  if (command !== undefined) {
    const { oldId, newId } = command
    const expected = oldId === zeroId(formatOf(oldId)) ? null : oldId
    try {
      await repository.push({
        expected,
        commitId: newId,
        read: (context) => readPushed(newId, pack, context),
        signal,
      })
    } catch (thrown) {
      error = thrown
      refusals.set(command, textOf(thrown))
    }
  }
  if (refusals.size > 0) await skip(pack, signal)
  return { report: reportOf(request, refusals), error }
}

/** Reads the rest of a pack. A client shows the report only after it has sent all of its pack. */
async function skip(pack: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  try {
    for await (const _ of pack) if (signal.aborted) return
  } catch {
    // The client is too slow, or gone.
  }
}

function refusalOf({ ref, newId }: Command): string | undefined {
  if (ref !== servedRef) return `a session has the branch ${servedRef.slice(11)} alone; push to it`
  if (newId === zeroId(formatOf(newId))) return 'the branch of a session cannot be deleted'
  return undefined
}

function reportOf(
  { commands, sideBand, reports }: PushRequest,
  refusals: ReadonlyMap<Command, string>,
): Buffer {
  if (!reports) return Buffer.alloc(0)
  const lines = commands.map((command) => {
    const refusal = refusals.get(command)
    return refusal === undefined ? `ok ${command.ref}\n` : `ng ${command.ref} ${refusal}\n`
  })
  const report = Buffer.concat([packet('unpack ok\n'), ...lines.map(packet), flushPacket])
  return sideBand ? Buffer.concat([bandPackets(1, report), flushPacket]) : report
}
