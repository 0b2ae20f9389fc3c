import { EngineError } from '../../../engine/ports.js'
import type { ObjectFormat } from '../objects/object-id.js'

/** The form of a repository, according to its config file. */
export interface RepositoryConfig {
  readonly format: ObjectFormat
  readonly isBare: boolean
}

/** Extensions that change nothing of the files that are read and written here. */
const knownExtensions = new Set([
  'compatobjectformat',
  'noop',
  'objectformat',
  'partialclone',
  'preciousobjects',
  'refstorage',
  'relativeworktrees',
  'worktreeconfig',
])

/**
 * Reads the settings of a config file that decide how the repository is stored. As in git, a repository of a newer version,
 * or with an extension that is not known, is neither read nor written. `path` is that of the repository.
 *
 * @throws {EngineError} GIT_NOT_A_REPOSITORY when the repository is stored in a form that is not supported
 */
export function parseRepositoryConfig(config: string, path: string): RepositoryConfig {
  const settings = readSettings(config)
  const version = settings.get('core.repositoryformatversion') ?? '0'
  if (version !== '0' && version !== '1') throw unsupported(`the format version ${version}`, path)
  const extensions = [...settings].flatMap(([name, value]) =>
    name.startsWith('extensions.') ? [[name.slice('extensions.'.length), value] as const] : [],
  )
  for (const [name, value] of extensions) {
    // Version 0 is older than most extensions. Git ignores those in it.
    if (version === '1' && !knownExtensions.has(name)) throw unsupported(`the extension ${name}`, path)
    if (name === 'refstorage' && value !== 'files') throw unsupported(`refs of the form ${value}`, path)
    if (name === 'objectformat' && value !== 'sha1' && value !== 'sha256')
      throw unsupported(`objects of the form ${value}`, path)
  }
  return {
    format: settings.get('extensions.objectformat') === 'sha256' ? 'sha256' : 'sha1',
    isBare: ['true', 'yes', 'on', '1'].includes(settings.get('core.bare') ?? 'false'),
  }
}

/** The settings of sections without a subsection, in lower case. A key without a value is true. */
function readSettings(config: string): Map<string, string> {
  const settings = new Map<string, string>()
  let section: string | undefined
  for (let line of config.split('\n')) {
    const head = /^\s*\[\s*([\w.-]+)(\s*".*"|)\s*\]/.exec(line)
    if (head !== null) {
      section = head[2] === '' ? head[1]?.toLowerCase() : undefined
      line = line.slice(head[0].length)
    }
    const [, key, value = 'true'] = /^\s*([a-z][\w-]*)\s*(?:=\s*"?([^"#;\s]*).*)?$/is.exec(line) ?? []
    if (section !== undefined && key !== undefined)
      settings.set(`${section}.${key.toLowerCase()}`, value.toLowerCase())
  }
  return settings
}

function unsupported(what: string, path: string): EngineError {
  return new EngineError(
    'GIT_NOT_A_REPOSITORY',
    `the repository has ${what}, which is not supported. Clone it with git to a repository of another form, and use that one`,
    { path },
  )
}
