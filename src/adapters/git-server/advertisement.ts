import { Buffer } from 'node:buffer'
import {
  isRefName,
  servedBranch,
  version,
  type CheckpointCommit,
  type RepositoryHead,
} from '../../engine/ports.js'
import { flushPacket, formatOf, packet, zeroId, type ObjectFormat } from '../git/parts.js'
import { gitServerLimits } from './limits.js'
import type { Service } from './request.js'

/** The only ref that a push may update. */
export const servedRef = `refs/heads/${servedBranch}`

/** The prefix of the refs of checkpoints. */
export const checkpointPrefix = 'refs/checkpoints/'

export const agent = `agent=forkspace/${version}`

export function formatOfHead({ commitId }: RepositoryHead): ObjectFormat {
  return commitId === null ? 'sha1' : formatOf(commitId)
}

/** The refs of checkpoints: by label if that is a valid name of one part, otherwise by id. */
export function checkpointRefs(
  checkpoints: readonly CheckpointCommit[],
): (readonly [name: string, oid: string])[] {
  const ids = new Set(checkpoints.map(({ checkpointId }) => checkpointId))
  return checkpoints.map(({ checkpointId, label, commitId }) => {
    const isName = isCheckpointName(label) && !ids.has(label)
    return [`${checkpointPrefix}${isName ? label : checkpointId}`, commitId] as const
  })
}

/** Clients keep a ref in a file, so a longer name would make their whole fetch fail. */
function isCheckpointName(label: string): boolean {
  return (
    label !== '' &&
    !label.includes('/') &&
    Buffer.byteLength(label) <= gitServerLimits.checkpointNameBytes &&
    isRefName(`${checkpointPrefix}${label}`)
  )
}

/** The capabilities of version 2, which has no pushes. */
export function capabilitiesV2(format: ObjectFormat): Buffer {
  return Buffer.concat([
    packet('version 2\n'),
    packet(`${agent}\n`),
    packet('ls-refs=unborn\n'),
    packet('fetch=shallow\n'),
    packet(`object-format=${format}\n`),
    flushPacket,
  ])
}

const capabilities: Readonly<Record<Service, readonly string[]>> = {
  'git-upload-pack': [
    'multi_ack_detailed',
    'side-band-64k',
    'ofs-delta',
    'no-progress',
    'shallow',
    'deepen-relative',
  ],
  // Deletions are refused, with a reason that the client shows.
  'git-receive-pack': ['report-status', 'delete-refs', 'side-band-64k', 'ofs-delta', 'quiet'],
}

/** The list of refs of version 0, for pushes, and for clients that fetch without version 2. */
export function refsV0(service: Service, head: RepositoryHead, isCut: boolean): Buffer {
  const { commitId, base } = head
  const format = formatOfHead(head)
  const refs: (readonly [string, string])[] = commitId === null ? [] : [[commitId, servedRef]]
  if (commitId !== null && service === 'git-upload-pack') refs.unshift([commitId, 'HEAD'])
  const known = [
    ...capabilities[service],
    ...(service === 'git-upload-pack' && commitId !== null ? [`symref=HEAD:${servedRef}`] : []),
    `object-format=${format}`,
    agent,
  ]
  if (refs.length === 0) refs.push([zeroId(format), 'capabilities^{}'])
  const lines = refs.map(([oid, name], at) => `${oid} ${name}${at === 0 ? `\0${known.join(' ')}` : ''}\n`)
  return Buffer.concat([
    packet(`# service=${service}\n`),
    flushPacket,
    ...lines.map(packet),
    ...(isCut && base !== null ? [packet(`shallow ${base}\n`)] : []),
    flushPacket,
  ])
}
