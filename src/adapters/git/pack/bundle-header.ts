import { EngineError, type TimeSlice } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'
import { formatOf, isObjectId, type ObjectFormat } from '../objects/object-id.js'

export interface BundleHeader {
  readonly format: ObjectFormat
  /** Commits that the bundle builds on but does not contain. */
  readonly prerequisites: readonly string[]
  /** Maps the full name of a ref to its object id. */
  readonly refs: ReadonlyMap<string, string>
  /** The offset of the pack. */
  readonly end: number
}

/**
 * Reads the header of a bundle of version 2 or 3. `bundle` needs only as many bytes as a header may have.
 * Throws GIT_UNSUPPORTED_BUNDLE if the content is not a bundle or needs an unknown capability, and
 * GIT_CORRUPT if the header has no end.
 */
export async function readBundleHeader(bundle: Buffer, slice: TimeSlice): Promise<BundleHeader> {
  const version = /^# v(\d+) git bundle\n/.exec(bundle.toString('latin1', 0, 32))
  if (version === null) throw unsupported('the content is not a git bundle')
  if (version[1] !== '2' && version[1] !== '3')
    throw unsupported(`version ${version[1]} of git bundles is not supported`)
  let format: ObjectFormat = 'sha1'
  const prerequisites: string[] = []
  const refs = new Map<string, string>()
  let at = version[0].length
  for (;;) {
    const end = bundle.indexOf('\n', at)
    if (end < 0) throw tooShort()
    if (slice.over) await slice.next()
    const line = bundle.toString('utf8', at, end)
    at = end + 1
    if (line === '') break
    if (line.startsWith('@') && version[1] === '3') {
      format = capability(line.slice(1)) ?? format
      continue
    }
    const [, isPrerequisite, oid, name] = /^(-?)([0-9a-f]+)(?: (.*))?$/s.exec(line) ?? []
    if (oid === undefined || !isObjectId(oid) || formatOf(oid) !== format) throw malformed()
    if (isPrerequisite === '-') prerequisites.push(oid)
    else if (name === undefined || name === '') throw malformed()
    else refs.set(name, oid)
  }
  return { format, prerequisites, refs, end: at }
}

/** Writes the header of a bundle: of version 2, or of version 3 if its ids are not SHA-1. */
export function formatBundleHeader({ format, prerequisites, refs }: Omit<BundleHeader, 'end'>): Buffer {
  const lines = [
    ...(format === 'sha1' ? ['# v2 git bundle'] : ['# v3 git bundle', `@object-format=${format}`]),
    ...prerequisites.map((oid) => `-${oid} `),
    ...[...refs].map(([name, oid]) => `${oid} ${name}`),
  ]
  return Buffer.from(`${lines.join('\n')}\n\n`)
}

/** Returns the object format that a capability sets. Throws GIT_UNSUPPORTED_BUNDLE for other capabilities. */
function capability(text: string): ObjectFormat | undefined {
  if (text === 'object-format=sha1' || text === 'object-format=sha256') {
    return text === 'object-format=sha1' ? 'sha1' : 'sha256'
  }
  const [name = ''] = text.split('=', 1)
  if (name === 'filter') throw unsupported('the bundle omits objects by a filter')
  throw unsupported(
    `the bundle has the unknown capability ${JSON.stringify(name.slice(0, gitLimits.shownLength))}`,
  )
}

function unsupported(message: string): EngineError {
  return new EngineError('GIT_UNSUPPORTED_BUNDLE', message)
}

function malformed(): EngineError {
  return unsupported('the header of the bundle is malformed')
}

function tooShort(): EngineError {
  return new EngineError('GIT_CORRUPT', 'the header of the bundle has no end')
}
