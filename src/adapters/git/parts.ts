/** The parts of git's formats and protocol from which the server of sessions is made. */
export { commitReader } from './commit-reader.js'
export { gitLimits } from './limits.js'
export { newObjects } from './objects/new-objects.js'
export { emptyTreeId, formatOf, isObjectId, zeroId, type ObjectFormat } from './objects/object-id.js'
export { RevisionObjects } from './objects/revision-objects.js'
export { walkTree } from './objects/walk-tree.js'
export { missingBase } from './pack/pack-errors.js'
export { readPack } from './pack/pack-reader.js'
export { EntryCaches, streamPack, type EntryCache } from './pack/stream-pack.js'
export {
  bandPackets,
  delimiterPacket,
  flushPacket,
  packet,
  PacketReader,
  packetText,
} from './remote/pkt-line.js'
