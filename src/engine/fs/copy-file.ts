import { planCopyFile } from '../session/edits/copies.js'
import { findNode } from '../session/reads/lookup.js'
import { requireParents } from '../session/edits/parents.js'
import { alreadyExists, isADirectory, resolve } from '../session/reads/resolve.js'
import { Dir } from '../tree/node.js'
import { givenPath, plainPath, slashed } from './resolve-path.js'
import { toModeBits } from './values.js'
import { change, locate, readsAndWrites, type Define } from './calls.js'
import { constants } from './constants.js'
import { refuseFileName } from './open-calls.js'

/** A copy shares the content of its source, so it stores only a new entry. */
export const copyFile: Define<void> = ({ core }, src, dest, mode) => {
  const path = givenPath(src, 'src')
  const target = givenPath(dest, 'dest')
  const exclusive = (toModeBits(mode) & constants.COPYFILE_EXCL) !== 0
  const call = change({ syscall: 'copyfile', path, dest: target }, (live) => {
    const sourcePath = locate(live, path)
    const destinationPath = plainPath(target)
    const source = findNode(live, sourcePath, true)
    if (slashed(target)) refuseFileName(live, destinationPath)
    if (source instanceof Dir) {
      // As on a disk, the source is opened before its type is checked. So errors of the destination come
      // first.
      const to = resolve(live.tree, destinationPath, !exclusive)
      if (exclusive && to.node !== undefined) throw alreadyExists(destinationPath)
      requireParents(to, destinationPath)
      throw isADirectory(sourcePath)
    }
    return planCopyFile(core, live, { sourcePath, destinationPath, exclusive })
  })
  return { needs: readsAndWrites, ...call }
}
