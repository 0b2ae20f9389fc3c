import { indexPack, readObject } from 'isomorphic-git'
import { EngineError, type GitObject } from '../../engine/ports.js'
import { checkPack } from './check-pack.js'
import { gitLimits } from './limits.js'
import { memoryFs, memoryGitDir, memoryPackDir } from './memory-fs.js'
import type { ObjectSource } from './object-source.js'
import { createPacer } from './pacer.js'

export interface PackObjects extends ObjectSource {
  readonly oids: readonly string[]
  /** The pack's index as git stores it beside the pack. */
  readonly index: Uint8Array
}

/** Indexes a pack in memory. The ids come from the contents, so what is read is what was asked for. */
export async function openPack(pack: Uint8Array, signal: AbortSignal): Promise<PackObjects> {
  const pacer = createPacer(signal)
  const bytes = Buffer.from(pack.buffer, pack.byteOffset, pack.length)
  await checkPack(bytes, pacer)
  const files = new Map<string, Uint8Array>([[`${memoryPackDir}/fetched.pack`, bytes]])
  const fs = memoryFs(files)
  const { oids } = await readable(() =>
    indexPack({
      fs,
      dir: memoryGitDir,
      gitdir: memoryGitDir,
      filepath: 'objects/pack/fetched.pack',
      onProgress: () => (pacer.due() ? pacer.rest() : undefined),
    }),
  ).catch((error: unknown) => {
    throw signal.aborted ? signal.reason : error
  })
  return {
    oids,
    index: files.get(`${memoryPackDir}/fetched.idx`)!,
    read: createReader({ fs, gitDir: memoryGitDir }),
  }
}

/** Reads objects of a git directory, or of a pack in memory, through isomorphic-git. */
export function createReader(options: {
  fs: Parameters<typeof readObject>[0]['fs']
  gitDir: string
}): (oid: string) => Promise<GitObject> {
  let cache = {}
  let readBytes = 0
  return async (oid) => {
    const found = await readable(() =>
      readObject({ fs: options.fs, gitdir: options.gitDir, oid, format: 'content', cache }),
    )
    const body = found.object as Uint8Array
    readBytes += body.length
    if (readBytes > gitLimits.readCacheBytes) {
      cache = {}
      readBytes = 0
    }
    return { oid, type: found.type as GitObject['type'], body }
  }
}

async function readable<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new EngineError('GIT_CORRUPT', 'an object is missing or damaged', {}, { cause: error })
  }
}
