import {
  CopyWalk,
  givenPath,
  runWalk,
  slashed,
  toCopyOptions,
  toSystemError,
  type CopyQuestion,
  type CopyStep,
} from '../../../engine/client-contract.js'
import type { RemoteFiles } from '../files.js'
import type { changesOf } from './changes.js'
import { locate } from './context.js'
import type { readsOf } from './reads.js'

interface Calls extends ReturnType<typeof changesOf>, ReturnType<typeof readsOf> {}

/**
 * Implements `cp` by Node's rules. It checks everything first, and changes nothing if a check fails. Each
 * step is a separate change. The contents do not leave the server.
 */
export async function copy(
  files: RemoteFiles,
  calls: Calls,
  [from, to, given]: readonly unknown[],
): Promise<void> {
  const options = toCopyOptions(given)
  const src = givenPath(from, 'src')
  const dest = givenPath(to, 'dest')
  try {
    const steps = await runWalk(new CopyWalk(options, { isSync: false }).run(src, dest), (question) =>
      question.ask === 'filter'
        ? question.filter.call(options, question.src, question.dest)
        : find(files, calls, question),
    )
    for (const step of steps) await change(calls, step)
  } catch (thrown) {
    throw toSystemError(thrown, { syscall: 'cp', path: src, dest })
  }
}

async function find(
  files: RemoteFiles,
  calls: Calls,
  question: Exclude<CopyQuestion, { readonly ask: 'filter' }>,
): Promise<unknown> {
  const { ask, path } = question
  if (ask === 'readlink') return calls.readlink(path)
  if (ask === 'readdir') return calls.readdir(path)
  const followSymlinks = question.syscall === 'stat' || slashed(path)
  return files.stat({ path: await locate(files, path), followSymlinks })
}

async function change(calls: Calls, step: CopyStep): Promise<unknown> {
  switch (step.op) {
    case 'mkdir':
      return calls.mkdir(step.path, { recursive: step.recursive, mode: step.mode })
    case 'copyFile':
      return calls.copyFile(step.src, step.path, step.mode)
    case 'symlink':
      return calls.symlink(step.target, step.path)
    case 'unlink':
      return calls.unlink(step.path)
    default:
      return calls.utimes(step.path, step.time, step.time)
  }
}
