import { EngineError, isRefName } from '../../engine/ports.js'
import { gitLimits } from './limits.js'
import { isObjectId } from './objects/object-id.js'
import type { RemoteRefs, Repository } from './repository.js'

export interface ResolvedRef {
  /** The id that the ref points to. */
  readonly oid: string
  /** The object that an annotated tag peels to, if the remote lists it; otherwise `oid`. */
  readonly target: string
}

/**
 * Resolves a caller's `gitRef`. An empty one is HEAD, and 40 or 64 hexadecimal digits are an id. Any other
 * text is tried as a full ref, a branch, a tag and a name below `refs/`, in this order. Returns undefined if
 * `gitRef` is empty and the repository has no refs at all. Throws GIT_REF_NOT_FOUND.
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
  const branches: string[] = []
  for (const name of all.refs.keys()) {
    if (branches.length === gitLimits.shownBranches) break
    if (name.startsWith('refs/heads/')) branches.push(name)
  }
  const names = branches.map((name) => name.slice(11)).join(', ')
  const hint = names === '' ? 'the repository has no branches' : `pass one of the branches: ${names}`
  return new EngineError('GIT_REF_NOT_FOUND', `HEAD does not name a commit; ${hint}`, {
    gitRef: '',
    branches: names,
  })
}
