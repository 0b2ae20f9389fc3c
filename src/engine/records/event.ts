import type { BlobRef, EncodedBlob } from '../cas/blob.js'

/** Types of events, `v1.<service>.<operation>`. */
export const eventTypes = {
  createSession: 'v1.SessionService.CreateSession',
  forkSession: 'v1.SessionService.ForkSession',
  deleteSession: 'v1.SessionService.DeleteSession',
  createCheckpoint: 'v1.PersistenceService.CreateCheckpoint',
  restoreCheckpoint: 'v1.PersistenceService.RestoreCheckpoint',
  deleteCheckpoint: 'v1.PersistenceService.DeleteCheckpoint',
  commit: 'v1.PersistenceService.Commit',
  mergeSession: 'v1.PersistenceService.MergeSession',
  rebaseSession: 'v1.PersistenceService.RebaseSession',
  resolveConflicts: 'v1.PersistenceService.ResolveConflicts',
  abortMerge: 'v1.PersistenceService.AbortMerge',
  /** Replaces lost events in a repaired store, and carries the newest state that remains. */
  repair: 'v1.PersistenceService.Repair',
  restoreState: 'v1.PersistenceService.RestoreState',
  undo: 'v1.PersistenceService.Undo',
  redo: 'v1.PersistenceService.Redo',
  createDirectory: 'v1.FileSystemService.CreateDirectory',
  removeDirectory: 'v1.FileSystemService.RemoveDirectory',
  rename: 'v1.FileSystemService.Rename',
  deleteFile: 'v1.FileSystemService.DeleteFile',
  applyBatch: 'v1.FileSystemService.ApplyBatch',
  createSymlink: 'v1.FileSystemService.CreateSymlink',
  createHardLink: 'v1.FileSystemService.CreateHardLink',
  unlink: 'v1.FileSystemService.Unlink',
  patchSegments: 'v1.FileSystemService.PatchSegments',
  setXattr: 'v1.FileSystemService.SetXattr',
  removeXattr: 'v1.FileSystemService.RemoveXattr',
  writeFile: 'v1.FileSystemService.WriteFile',
  setAttributes: 'v1.FileSystemService.SetAttributes',
  editFile: 'v1.FileSystemService.EditFile',
  applyPatch: 'v1.FileSystemService.ApplyPatch',
  addAnnotation: 'v1.AnnotationService.AddAnnotation',
  updateAnnotationStatus: 'v1.AnnotationService.UpdateAnnotationStatus',
  requestApproval: 'v1.OversightService.RequestApproval',
  grantApproval: 'v1.OversightService.GrantApproval',
  denyApproval: 'v1.OversightService.DenyApproval',
  lockFile: 'v1.CollaborationService.LockFile',
  unlockFile: 'v1.CollaborationService.UnlockFile',
  forceUnlockFile: 'v1.CollaborationService.ForceUnlockFile',
  reportHealth: 'v1.HealthService.ReportHealth',
  putSecret: 'v1.SecretsService.PutSecret',
  deleteSecret: 'v1.SecretsService.DeleteSecret',
  promoteSession: 'v1.UnderlaySourceService.PromoteSession',
} as const

/**
 * The type of an event, `v1.<service>.<operation>`.
 *
 * @inline
 * @useDeclaredType
 */
export type EventType = (typeof eventTypes)[keyof typeof eventTypes]

type BlobIn = BlobRef | EncodedBlob

/** A path, or the inode number of a hard-linked file that no path reaches. */
export type FileTarget = string | number

/** Puts `length` bytes at `offset` of a file, from `casOffset` of the blob on. Blob 0 is a hole. */
export type RedoPiece = readonly [offset: number, length: number, blob: BlobIn | 0, casOffset: number]

/**
 * The effects of a change, not the request for it. Paths are resolved, parents exist, and modes and inode
 * numbers are chosen. The time of an effect is the time of its event. This is disk format: the meaning of a
 * letter never changes.
 */
export type Redo =
  /** A new file with its whole content (0 = empty). */
  | readonly ['w', path: string, mode: number, ino: number, blob: BlobIn | 0]
  /** The whole new content of an existing file. The file stays the same node. */
  | readonly ['o', file: FileTarget, blob: BlobIn | 0]
  /** Pieces that replace ranges of a file. `size` is the size of the file afterwards. */
  | readonly ['p', file: FileTarget, size: number, pieces: readonly RedoPiece[]]
  /** Copies the content of the file `from` to the file `to`, which stays the same node. */
  | readonly ['k', from: string, to: string]
  /** Permission bits of a file or directory. */
  | readonly ['c', node: FileTarget, mode: number]
  /** The time of the last change of content, in milliseconds. */
  | readonly ['t', node: FileTarget, mtime: number]
  /** An extended attribute of a file or directory; the value 0 removes it. */
  | readonly ['x', path: string, name: string, value: BlobIn | 0]
  /** A new directory. */
  | readonly ['d', path: string, mode: number, ino: number]
  /** A new symlink. */
  | readonly ['s', path: string, target: string, ino: number]
  /** Another name for a file: a hard link. */
  | readonly ['h', from: string, to: string]
  /** Deletes the entry at the path, with everything below it. */
  | readonly ['u', path: string]
  /** A move; it replaces the entry at the destination. */
  | readonly ['m', from: string, to: string]
  /** Resets the whole tree to the state after event `seq` of this session. */
  | readonly ['R', seq: number]

/** The part of an event that readers of the history see. */
export type PublicPart = readonly [at: number, type: EventType, details: object, principal: string]

/**
 * A stored event. Its public part records what happened, and which principal caused it. On durable stores,
 * the link to the previous event (see `chain.ts`) and the redo follow. If the redo was dropped, its hash
 * replaces it. The link is then still valid, but the event cannot be replayed.
 */
export type EventBody = readonly [...event: PublicPart, link?: string, redo?: readonly Redo[] | string]

/**
 * The contents that a replay of these effects needs, each with the path of its file if the effect contains
 * one.
 */
export function* contentsOf(
  effects: readonly Redo[],
): Generator<readonly [hash: string, length: number, path: string | undefined], void> {
  for (const effect of effects) {
    const path = typeof effect[1] === 'string' ? effect[1] : undefined
    for (const content of valuesOf(effect)) {
      if (content === 0) continue
      const [hash, length] = content as EncodedBlob
      yield [hash, length, path]
    }
  }
}

function valuesOf(effect: Redo): readonly (BlobIn | 0)[] {
  switch (effect[0]) {
    case 'w':
      return [effect[4]]
    case 'o':
      return [effect[2]]
    case 'x':
      return [effect[3]]
    case 'p':
      return effect[3].map(([, , blob]) => blob)
    default:
      return []
  }
}

/** Makes the pieces that put blobs one after the other, from offset `start` on. */
export function piecesFrom(start: number, blobs: readonly BlobRef[]): RedoPiece[] {
  let offset = start
  return blobs.map((blob) => {
    const piece: RedoPiece = [offset, blob.length, blob, 0]
    offset += blob.length
    return piece
  })
}
