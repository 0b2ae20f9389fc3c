import { EngineError, isRefName } from '../../engine/ports.js'
import { isObjectId } from './objects/object-id.js'
import type { RemoteRefs, Repository } from './repository.js'

export interface ResolvedRef {
  /** What the ref holds. */
  readonly oid: string
  /** What an annotated tag leads to in the end, if the remote says so; else `oid`. */
  readonly target: string
}

/**
 * The id that a ref of the caller names: empty is HEAD, 40 or 64 hexadecimal digits are the id itself, then
 * full ref, branch, tag, and a name below `refs/`. Undefined when HEAD is asked for and the repository has no refs
 * at all. Throws GIT_REF_NOT_FOUND.
 */
export async function resolveRef(
  repository: Repository,
  gitRef: string,
  signal: AbortSignal,
): Promise<ResolvedRef | undefined> {
  const id = gitRef.toLowerCase()
  if (isObjectId(id)) return { oid: id, target: id }
  if (gitRef === '') return resolveHead(repository, signal)
  const names = candidates(gitRef)
  if (names.length === 0) throw refNotFound(gitRef)
  const { refs, peeled } = await repository.listRefs({ prefixes: names, signal })
  for (const name of names) {
    const oid = refs.get(name)
    if (oid !== undefined) return { oid, target: peeled.get(name) ?? oid }
  }
  throw refNotFound(gitRef)
}

async function resolveHead(repository: Repository, signal: AbortSignal): Promise<ResolvedRef | undefined> {
  const { refs } = await repository.listRefs({ prefixes: ['HEAD'], signal })
  const head = refs.get('HEAD')
  if (head !== undefined) return { oid: head, target: head }
  const all = await repository.listRefs({ prefixes: [], signal })
  if (all.refs.size === 0) return undefined
  throw unbornHead(all)
}

function candidates(gitRef: string): string[] {
  if (gitRef === 'HEAD') return ['HEAD']
  const names = [`refs/heads/${gitRef}`, `refs/tags/${gitRef}`, `refs/${gitRef}`]
  if (gitRef.startsWith('refs/')) names.unshift(gitRef)
  return names.filter(isRefName)
}

function refNotFound(gitRef: string): EngineError {
  return new EngineError('GIT_REF_NOT_FOUND', `the repository has no ref ${JSON.stringify(gitRef)}`, {
    gitRef,
  })
}

function unbornHead(all: RemoteRefs): EngineError {
  const branches = [...all.refs.keys()].filter((name) => name.startsWith('refs/heads/')).slice(0, 20)
  const names = branches.map((name) => name.slice(11)).join(', ')
  return new EngineError('GIT_REF_NOT_FOUND', `HEAD names no commit; the branches are: ${names}`, {
    gitRef: '',
    branches: names,
  })
}
