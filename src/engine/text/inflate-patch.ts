import { runInSlices, type Clock } from '../base/cooperative.js'
import { applyBinary, type BinaryChange } from './binary-change.js'
import type { FilePatch } from './file-patch.js'

/**
 * Decompresses the binary contents of a patch, one after the other. New files get their content. Undefined if the patch
 * has no binary contents.
 */
export function inflateAll(
  patches: readonly FilePatch[],
): ((clock: Clock) => Promise<readonly FilePatch[]>) | undefined {
  if (!patches.some((patch) => binaryOf(patch) !== undefined)) return undefined
  return async (clock) => {
    const inflated: FilePatch[] = []
    for (const patch of patches) {
      const binary = binaryOf(patch)
      await binary?.data.inflate()
      await binary?.reverse?.inflate()
      inflated.push(
        binary !== undefined && patch.kind === 'create'
          ? {
              ...patch,
              content: await runInSlices(applyBinary(undefined, binary, patch.path), clock),
              isBinary: true,
            }
          : patch,
      )
    }
    return inflated
  }
}

function binaryOf(patch: FilePatch): BinaryChange | undefined {
  const change = patch.kind === 'create' ? patch.content : patch.change
  return typeof change === 'object' && change.format === 'binary' ? change : undefined
}
