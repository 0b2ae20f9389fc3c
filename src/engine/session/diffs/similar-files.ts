import { limits } from '../../base/limits.js'
import { runInSlices, TimeSlice } from '../../base/cooperative.js'
import { byteTextOf, isBinary } from '../../text/byte-text.js'
import { splitLines } from '../../text/lines.js'
import { FileNode } from '../../tree/node.js'
import type { Core } from '../core.js'
import { readWhole } from './read-whole.js'
import type { Candidate } from './rename-candidates.js'

type Pair = readonly [old: Candidate, current: Candidate]

/** The bytes of each distinct line of a file. */
interface Fingerprint {
  readonly file: Candidate
  readonly size: number
  readonly lines: ReadonlyMap<string, number>
}

/**
 * Pairs text files by the share of bytes in equal lines, the most similar ones first. Finds none if there are
 * too many files, or too many bytes. Leaves out files of more bytes than a diff of lines may have.
 */
export async function findSimilar(
  core: Core,
  { removed, added }: { readonly removed: readonly Candidate[]; readonly added: readonly Candidate[] },
  similarity: number,
): Promise<Pair[]> {
  const bytes = [...removed, ...added].reduce((sum, { node }) => sum + sizeOf(node), 0)
  if (Math.max(removed.length, added.length) > limits.diffSimilarFiles || bytes > limits.diffSimilarBytes)
    return []
  const before = await fingerprints(core, removed)
  const after = await fingerprints(core, added)
  const scored: { readonly pair: Pair; readonly score: number }[] = []
  const slice = new TimeSlice(core.environment)
  for (const current of after) {
    for (const old of before) {
      const score = scoreOf(old, current, similarity)
      if (score >= similarity) scored.push({ pair: [old.file, current.file], score })
      if (slice.over) await slice.next()
    }
  }
  return bestPairs(scored.sort((a, b) => b.score - a.score).map(({ pair }) => pair))
}

function bestPairs(pairs: readonly Pair[]): Pair[] {
  const used = new Set<Candidate>()
  return pairs.filter(([old, current]) => {
    if (used.has(old) || used.has(current)) return false
    used.add(old).add(current)
    return true
  })
}

function sizeOf(node: Candidate['node']): number {
  return node instanceof FileNode && node.size <= limits.diffFileBytes ? node.size : 0
}

async function fingerprints(core: Core, files: readonly Candidate[]): Promise<Fingerprint[]> {
  const found: Fingerprint[] = []
  for (const file of files) {
    const size = sizeOf(file.node)
    if (size === 0) continue
    const bytes = await readWhole(core, file.node)
    if (isBinary(bytes)) continue
    const lines = new Map<string, number>()
    for (const line of await runInSlices(splitLines(byteTextOf(bytes)), core.environment))
      lines.set(line, (lines.get(line) ?? 0) + line.length)
    found.push({ file, size, lines })
  }
  return found
}

/** The share of equal lines in the larger file, in percent. */
function scoreOf(a: Fingerprint, b: Fingerprint, atLeast: number): number {
  const larger = Math.max(a.size, b.size)
  if (Math.min(a.size, b.size) * 100 < larger * atLeast) return 0
  let common = 0
  for (const [line, bytes] of a.lines) common += Math.min(bytes, b.lines.get(line) ?? 0)
  return Math.floor((common * 100) / larger)
}
