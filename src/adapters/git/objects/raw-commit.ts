import {
  EngineError,
  invalid,
  type CommitDescription,
  type CommitIdentity,
  type GitObject,
} from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import type { ObjectFormat } from './object-id.js'

export interface CommitFacts {
  readonly tree: string
  readonly committerSeconds: number
}

/** Reads the tree and the committer's time. The other fields may have any encoding and are not read. */
export function parseCommit(commit: GitObject): CommitFacts {
  const header = headerOf(commit)
  const tree = /^tree ([0-9a-f]{40}|[0-9a-f]{64})$/m.exec(header)?.[1]
  if (tree === undefined) throw damaged(commit)
  const seconds = Number(/^committer .*> (-?\d{1,12}) [-+]\d{4}$/m.exec(header)?.[1] ?? 0)
  return {
    tree: detached(tree),
    committerSeconds: Math.min(Math.max(0, seconds), gitLimits.lastCommitSecond),
  }
}

/** Reads all fields. Text that is not UTF-8 gets replacement characters. */
export function describeCommit(commit: GitObject): CommitDescription {
  const { tree: treeId, committerSeconds: timestampSeconds } = parseCommit(commit)
  const text = Buffer.from(commit.body.buffer, commit.body.byteOffset, commit.body.length).toString('utf8')
  const end = text.indexOf('\n\n')
  const header = end < 0 ? text : text.slice(0, end)
  // Each group ends at the one place where it can end. Otherwise, the time of a search is quadratic.
  const [, name = '', email = ''] = /^author ([^<\r\n]*?) ?<([^>\r\n]*)>/m.exec(header) ?? []
  return {
    commitId: commit.oid,
    treeId,
    parentIds: Array.from(header.matchAll(/^parent ([0-9a-f]{40}|[0-9a-f]{64})$/gm), ([, id = '']) =>
      detached(id),
    ),
    author: { name, email },
    timestampSeconds,
    message: end < 0 ? '' : text.slice(end + 2),
  }
}

/** Returns the object that an annotated tag points to. */
export function parseTag(tag: GitObject): { readonly object: string } {
  const object = /^object ([0-9a-f]{40}|[0-9a-f]{64})$/m.exec(headerOf(tag))?.[1]
  if (object === undefined) throw damaged(tag)
  return { object }
}

export interface CommitFields {
  readonly tree: string
  readonly parent: string | null
  readonly otherParent?: string
  readonly author: CommitIdentity
  readonly timestampSeconds: number
  readonly message: string
}

/** Formats the text of a commit. The same fields give the same text. */
export function formatCommit(commit: CommitFields): string {
  const person = `${formatIdentity(commit.author)} ${Math.max(0, Math.floor(commit.timestampSeconds))} +0000`
  const message = commit.message.replaceAll('\0', '')
  const lines = [
    `tree ${commit.tree}`,
    ...(commit.parent === null ? [] : [`parent ${commit.parent}`]),
    ...(commit.otherParent === undefined ? [] : [`parent ${commit.otherParent}`]),
    `author ${person}`,
    `committer ${person}`,
    '',
    message.endsWith('\n') ? message : `${message}\n`,
  ]
  return lines.join('\n')
}

/**
 * Adds a signature as the last header of a commit. Throws INVALID_ARGUMENT if it is not valid as a header.
 */
export function addSignature(text: string, signature: string, format: ObjectFormat): string {
  const lines = String(signature).replaceAll('\r\n', '\n').replace(/\n+$/, '').split('\n')
  if (typeof signature !== 'string' || lines[0] === '' || signature.includes('\0')) {
    throw invalid('git.sign', 'must return a signature: a string whose first line is not empty')
  }
  const header = format === 'sha1' ? 'gpgsig' : 'gpgsig-sha256'
  const end = text.indexOf('\n\n')
  return `${text.slice(0, end)}\n${header} ${lines.join('\n ')}${text.slice(end)}`
}

function formatIdentity({ name, email }: CommitIdentity): string {
  const address = cleaned(email)
  return `${cleaned(name) || address || 'unknown'} <${address}>`
}

/** Removes characters that would end the name, the address or the line. */
function cleaned(text: string): string {
  return text.replace(/[\0\r\n<>]/g, '').trim()
}

/** An id as a string of its own. A part of a string keeps the whole text of its commit in memory. */
function detached(id: string): string {
  return Buffer.from(id, 'hex').toString('hex')
}

function headerOf(object: GitObject): string {
  const bytes = Buffer.from(object.body.buffer, object.body.byteOffset, object.body.length)
  const end = bytes.indexOf('\n\n')
  return bytes.toString('latin1', 0, end < 0 ? bytes.length : end)
}

function damaged(object: GitObject): EngineError {
  return new EngineError('GIT_CORRUPT', `the ${object.type} ${object.oid} is damaged`)
}
