import { keys, prefixEnd, type ScanRange } from '../../engine/ports.js'

/**
 * Nodes of trees are most of the records. They are large and never change, so they have a table of their
 * own. Their keys are one range of the order of all keys.
 */
const nodes = { gte: keys.allNodes(), lt: prefixEnd(keys.allNodes()) }

export type RecordTable = 'records' | 'nodes'

export function isNodeKey(key: string): boolean {
  return key.startsWith(nodes.gte)
}

/** The parts of a range in each table, in the order of their keys. */
export function partsOf({
  gte,
  lt,
}: Pick<ScanRange, 'gte' | 'lt'>): { table: RecordTable; gte: Buffer; lt: Buffer }[] {
  const [from, to] = [Buffer.from(gte), Buffer.from(lt)]
  const parts = [
    { table: 'records' as const, gte: from, lt: smaller(to, nodesFrom) },
    { table: 'nodes' as const, gte: larger(from, nodesFrom), lt: smaller(to, nodesTo) },
    { table: 'records' as const, gte: larger(from, nodesTo), lt: to },
  ]
  return parts.filter((part) => Buffer.compare(part.gte, part.lt) < 0)
}

const nodesFrom = Buffer.from(nodes.gte)
/** The first possible key after all keys that start with the letter of nodes. */
const nodesTo = Buffer.from(String.fromCharCode(nodes.gte.charCodeAt(0) + 1))

function smaller(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) < 0 ? a : b
}

function larger(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) > 0 ? a : b
}
