import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { formatOf, zeroId } from '../objects/object-id.js'
import { boundTalk, flushPacket, packet, PacketReader, packetText, splitPackets } from './pkt-line.js'
import { branchMoved, pushRejected } from './remote-errors.js'
import type { PushRequest } from '../repository.js'
import type { SmartConnection } from './smart-connection.js'
import { advertisedRefs } from './upload-pack.js'

/**
 * Updates one ref. The advertised id of the ref is compared before anything is sent, and the remote compares
 * it again. If the answer is lost, the ref is read once more. If it then has the new id, the push succeeded.
 */
export async function push(connect: () => Promise<SmartConnection>, request: PushRequest): Promise<void> {
  const { ref, expectedOid, newOid, pack, signal } = request
  const connection = await connect()
  const tip = advertisedTip(connection, ref)
  if (tip === newOid) return
  if (tip !== null && tip !== expectedOid) throw branchMoved(ref, expectedOid, tip)

  const { advertisement } = connection
  const { format } = advertisement
  if (format !== formatOf(newOid)) throw pushRejected(`the repository has ${format} ids`, '')
  const known = advertisement.version === 1 ? advertisement.capabilities : new Set<string>()
  const asked = ['report-status', 'side-band-64k', `object-format=${format}`].filter((name) =>
    known.has(name),
  )
  let failure: unknown
  try {
    const answer = await connection.post([
      packet(`${tip ?? zeroId(format)} ${newOid} ${ref}\0 ${asked.join(' ')}`),
      flushPacket,
      ...pack.parts,
    ])
    const report = await readReport(answer, ref, known.has('side-band-64k'))
    if (report.accepted) return
    failure = pushRejected(report.reason, report.remoteText)
  } catch (error) {
    if (signal.aborted) throw error
    failure = error
  }
  if (isRefusal(failure)) throw failure
  // Either the answer was lost or the remote refused. Read the ref to find out which, and whether another
  // push came first.
  const now = await connect().then(
    (again) => ({ tip: advertisedTip(again, ref) }),
    () => undefined,
  )
  if (now === undefined) throw failure
  if (now.tip === newOid) return
  if (now.tip !== tip) throw branchMoved(ref, expectedOid, now.tip)
  throw failure
}

function advertisedTip(connection: SmartConnection, ref: string): string | null {
  const { advertisement } = connection
  if (advertisement.version === 2) {
    throw new EngineError('GIT_NOT_A_REPOSITORY', 'the remote did not list its refs for a push')
  }
  return advertisedRefs(advertisement, [ref]).refs.get(ref) ?? null
}

/** Whether the remote refused before it processed the push. */
function isRefusal(failure: unknown): boolean {
  return (
    failure instanceof EngineError &&
    (failure.reason === 'GIT_AUTH_REQUIRED' ||
      failure.reason === 'GIT_AUTH_FAILED' ||
      failure.reason === 'GIT_REPO_NOT_FOUND' ||
      failure.reason === 'GIT_ADDRESS_REFUSED')
  )
}

interface Report {
  readonly accepted: boolean
  readonly reason: string
  /** The output of the remote and its hooks. */
  readonly remoteText: string
}

async function readReport(
  answer: AsyncIterable<Uint8Array>,
  ref: string,
  sideBand: boolean,
): Promise<Report> {
  const reader = new PacketReader(answer)
  const lines: Buffer[] = []
  const bound = boundTalk()
  let remoteText = ''
  let bytes = 0
  try {
    for (;;) {
      const line = await reader.read()
      if (line === undefined) break
      bound(line)
      if (typeof line === 'string') continue
      if (!sideBand || line[0] === 1) {
        bytes += line.length
        if (bytes > gitLimits.reportBytes)
          return { accepted: false, reason: 'the report of the remote is too long', remoteText }
        lines.push(sideBand ? line.subarray(1) : line)
      } else if (remoteText.length < gitLimits.remoteMessageChars) {
        remoteText += line.toString('utf8', 1)
      }
    }
  } finally {
    await reader.close()
  }
  // Inside the data band, the report has its own packets.
  const report = (sideBand ? splitPackets(Buffer.concat(lines)) : lines).map(packetText)
  const unpack = report.find((line) => line.startsWith('unpack '))?.slice(7)
  const refused = report.find((line) => line.startsWith('ng '))
  if (unpack === undefined) return { accepted: false, reason: 'the remote gave no report', remoteText }
  if (unpack !== 'ok') return { accepted: false, reason: `unpack: ${unpack}`, remoteText }
  // "ng <ref> <reason>": a ref contains no space.
  if (refused !== undefined)
    return { accepted: false, reason: refused.split(' ').slice(2).join(' '), remoteText }
  if (!report.includes(`ok ${ref}`))
    return { accepted: false, reason: 'the remote gave no report on the branch', remoteText }
  return { accepted: true, reason: '', remoteText }
}
