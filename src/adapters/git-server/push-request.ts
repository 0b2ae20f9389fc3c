import { TimeSlice, type Clock } from '../../engine/ports.js'
import { gitLimits, isObjectId, PacketReader, packetText, type ObjectFormat } from '../git/parts.js'
import { gitServerLimits } from './limits.js'
import { malformed } from './request.js'

/** The update of one ref. Ids of zeros mean a missing ref. */
export interface Command {
  readonly oldId: string
  readonly newId: string
  readonly ref: string
}

export interface PushRequest {
  readonly commands: readonly Command[]
  readonly sideBand: boolean
  readonly reports: boolean
  /** The bytes after the commands. Each iteration goes on where the one before it ended. */
  readonly pack: AsyncIterable<Buffer>
}

/** Reads the commands of a push. Undefined if there are none. */
export async function readPushRequest(
  body: AsyncIterable<Uint8Array>,
  format: ObjectFormat,
  clock: Clock,
): Promise<PushRequest | undefined> {
  const reader = new PacketReader(body, malformed)
  const commands: Command[] = []
  let asked: readonly string[] = []
  let bytes = 0
  const slice = new TimeSlice(clock)
  for (;;) {
    if (slice.over) await slice.next()
    const line = await reader.read()
    if (line === undefined) {
      if (bytes === 0) return undefined
      throw malformed('the request is cut off')
    }
    if (line === 'flush') break
    if (typeof line === 'string') throw malformed()
    bytes += line.length
    if (bytes > gitServerLimits.commandBytes || commands.length >= gitServerLimits.commands)
      throw malformed('there are too many updates of refs')
    const text = packetText(line)
    if (/^shallow [\da-f]+$/.test(text)) continue
    const [update = '', capabilities] = text.split('\0')
    if (capabilities !== undefined) asked = capabilities.split(' ')
    commands.push(commandOf(update, format))
  }
  if (commands.length === 0) return undefined
  return {
    commands,
    sideBand: asked.includes('side-band-64k'),
    reports: asked.includes('report-status'),
    pack: reader.rest(),
  }
}

function commandOf(text: string, format: ObjectFormat): Command {
  const [, oldId = '', newId = '', ref = ''] = /^(\S+) (\S+) (\S+)$/.exec(text) ?? []
  const length = format === 'sha1' ? 40 : 64
  const isRef = ref !== '' && ref.length <= gitLimits.refNameBytes
  if (!isObjectId(oldId) || !isObjectId(newId) || !isRef)
    throw malformed('an update of a ref has a wrong form')
  if (oldId.length !== length || newId.length !== length)
    throw malformed(`the repository has ids of ${format}`)
  return { oldId, newId, ref }
}
