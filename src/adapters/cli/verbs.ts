import type { Option } from 'commander'
import type { Context } from './context.js'
import { Flag } from './flags.js'
import type { World } from './world.js'

interface VerbShape {
  /** true: its first argument may name the store or the server, in place of the options. */
  readonly takesPlace?: true
  /** One word, or the name of a group and one word, such as `source add`. */
  readonly name: string
  /** Other names for the last word of the name. */
  readonly aliases?: readonly string[]
  readonly does: string
  readonly takes?: Arguments
  readonly options?: readonly Option[]
}

/** The description of each argument, by its form, such as `<session>`. */
type Arguments = Readonly<Record<string, string>>

/**
 * A verb that works in a store or on a server. Its code is loaded only when it runs. It may return an exit code.
 */
export interface Verb extends VerbShape {
  /** Text that the help shows below the options. */
  readonly note?: string
  readonly load: () => Promise<
    (context: Context, args: never, options: never) => Promise<void> | Promise<number>
  >
}

/** A verb that works on the files of a store without opening the store. It returns the exit code. */
export interface FilesVerb extends VerbShape {
  readonly load: () => Promise<(world: World, args: never, options: never) => Promise<number>>
  /** What to do for a store on PostgreSQL, which has no files. */
  readonly onPostgres: string
}

/** The descriptions of the groups of verbs, by name. */
export const groups: Readonly<Record<string, string>> = {
  source: 'manage sources, from which sessions start',
  session: 'manage sessions, the workspaces',
}

const sourceVerbs = () => import('./source-verbs.js')
const sessionVerbs = () => import('./session-verbs.js')
const fileVerbs = () => import('./file-verbs.js')
const textVerbs = () => import('./text-verbs.js')
const diffVerbs = () => import('./diff-verbs.js')
const historyVerbs = () => import('./history-verbs.js')
const mergeVerbs = () => import('./merge-verbs.js')
const exportVerbs = () => import('./export-verbs.js')
const mcpVerbs = () => import('./mcp.js')
const inspectVerbs = () => import('./inspect.js')
const mountVerbs = () => import('./mount.js')
const storeVerbs = () => import('./store-verbs.js')

const mergeNote =
  'Prints A added, D removed, M modified, then C for each conflict with its kind. "forkspace resolve" resolves one.'

const stateForms = 'label or id of a checkpoint, id of an event, time in RFC 3339, or base'

/** All verbs for sources, sessions and files, in the order of the help. */
export const verbs: readonly Verb[] = [
  {
    name: 'source add',
    aliases: ['create'],
    does: 'add a source, import it, and print its id',
    load: async () => (await sourceVerbs()).addSource,
    takes: {
      '<what>':
        'git URL (http, https), directory, repository, archive (tar, tar.gz, zip) or git bundle; - reads an archive or bundle from standard input',
    },
    options: [
      option('--name <name>', 'display name; by default the last part of the path or URL').sets(
        'displayName',
      ),
      repeated('--label <key=value>', 'label; can be repeated').sets('labels'),
      option('--ref <ref>', 'branch, tag or commit to import; by default HEAD').sets(
        'gitRemote.defaultRef',
        'gitRepository.defaultRef',
        'uploadedGitBundle.defaultRef',
        'git.gitRef',
        'uploadedGitBundle.gitRef',
      ),
      option('--kind <kind>', 'git, directory, repository, archive or bundle; detected by default'),
      option('--no-import', 'add the source without importing it'),
      gitNames(),
      ...gitRemote(),
    ],
  },
  {
    name: 'source import',
    does: 'import a source, and print the id of the revision',
    load: async () => (await sourceVerbs()).importSource,
    takes: {
      '<source>': 'id, or the beginning of it',
      '[what]': 'ref for a git source; archive, bundle or - (standard input) for an uploaded source',
    },
    options: [
      option('--ref <ref>', 'ref to import from a git source or bundle').sets(
        'git.gitRef',
        'uploadedGitBundle.gitRef',
      ),
      gitNames(),
      ...gitRemote(),
    ],
  },
  {
    name: 'source refresh',
    does: 'import a source again from its origin, and print the id of the revision',
    load: async () => (await sourceVerbs()).refreshSource,
    takes: { '<source>': 'id, or the beginning of it', '[ref]': 'ref for a git source' },
    options: gitRemote(),
  },
  {
    name: 'source ls',
    aliases: ['list'],
    does: 'list sources: id, kind, status, revision, name, labels',
    load: async () => (await sourceVerbs()).listSources,
    options: [option('--filter <key=value>', 'list only sources with this label').sets('filter')],
  },
  {
    name: 'source rm',
    aliases: ['remove', 'delete'],
    does: 'remove sources; their sessions are kept (needs a store)',
    load: async () => (await sourceVerbs()).removeSources,
    takes: { '<source...>': 'ids, or the beginnings of them' },
  },
  {
    name: 'session create',
    aliases: ['new'],
    does: 'create a session, and print its id',
    load: async () => (await sessionVerbs()).createSession,
    options: [
      option('--source <source>', 'source to start from; by default the session is empty'),
      option('--revision <revision>', 'id or label of a revision of the source; by default the latest').sets(
        'sourceRef.revisionId',
      ),
      repeated('--tag <key=value>', 'tag; can be repeated').sets('initialTags'),
    ],
  },
  {
    name: 'session ls',
    aliases: ['list'],
    does: 'list sessions: id, status, creation time, tags',
    load: async () => (await sessionVerbs()).listSessions,
    options: [
      option('--filter <key=value>', 'list only sessions with this tag').sets('filter'),
      repeated('--metadata <key=value>', 'list only sessions with this metadata; can be repeated').sets(
        'metadata',
      ),
    ],
  },
  {
    name: 'session show',
    aliases: ['get'],
    does: 'show a session and its checkpoints',
    load: async () => (await sessionVerbs()).showSession,
    takes: { '<session>': 'id, or the beginning of it' },
  },
  {
    name: 'session fork',
    does: 'fork a session, and print the id of the fork',
    load: async () => (await sessionVerbs()).forkSession,
    takes: { '<session>': 'id, or the beginning of it' },
    options: [
      option('--checkpoint <label>', 'checkpoint to fork; by default the current state'),
      repeated('--tag <key=value>', "tag, in addition to the session's tags; can be repeated").sets(
        'newTags',
      ),
      metadataPairs(),
    ],
  },
  {
    name: 'session import',
    does: 'create a session from a bundle of export --bundle, and print its id (needs a store)',
    load: async () => (await exportVerbs()).importSession,
    takes: { '<file>': 'bundle, or - for standard input' },
  },
  {
    name: 'session rm',
    aliases: ['remove', 'delete'],
    does: 'remove sessions; their forks are kept',
    load: async () => (await sessionVerbs()).removeSessions,
    takes: { '<session...>': 'ids, or the beginnings of them' },
  },
  {
    name: 'ls',
    aliases: ['list'],
    does: 'list files',
    load: async () => (await fileVerbs()).listFiles,
    takes: { '<session[:path]>': 'directory, or one file' },
    options: [
      option('-l, --long', 'show kind, mode, size and modification time'),
      option('-R, --recursive', 'list the contents of subdirectories too'),
    ],
  },
  {
    name: 'cat',
    does: 'print the bytes of a file',
    load: async () => (await fileVerbs()).printFile,
    takes: { '<session:path>': 'file' },
  },
  {
    name: 'put',
    does: 'write a file, and create missing directories',
    load: async () => (await fileVerbs()).putFile,
    takes: { '<file>': 'file of this host, or - for standard input', '<session:path>': 'file to write' },
    options: [
      option(
        '--mode <mode>',
        'permission bits in octal, such as 755; by default unchanged, or 644 for a new file',
      ),
      option(
        '--expect <hash>',
        "write only if the file has this hash (sha256:…); '' means only if it does not exist",
      ).sets('expectedHash'),
    ],
  },
  {
    name: 'mv',
    aliases: ['rename'],
    does: 'rename or move a file or directory',
    load: async () => (await fileVerbs()).movePath,
    takes: {
      '<session:path>': 'file, symlink or directory',
      '<destination>': 'new path in the same session, or an existing directory to move it into',
    },
  },
  {
    name: 'rm',
    aliases: ['remove', 'delete'],
    does: 'remove files, and directories with -r',
    load: async () => (await fileVerbs()).removePaths,
    takes: { '<session:path...>': 'files, symlinks or directories' },
    options: [
      option('-r, --recursive', 'remove directories with everything in them'),
      option('-f, --force', 'ignore paths that do not exist'),
    ],
  },
  {
    name: 'grep',
    does: 'search the text of files, and print path, line number and line',
    load: async () => (await textVerbs()).grepFiles,
    takes: {
      '<pattern>': 'regular expression in the syntax of RE2',
      '<session[:path]>': 'directory, or one file',
    },
    options: [
      option('-F, --literal', 'search for the pattern itself, which is no regular expression').sets(
        'literal',
      ),
      option('-i, --ignore-case', 'treat upper and lower case alike').sets('ignoreCase'),
      option('-w, --word', 'match whole words only').sets('wholeWord'),
      repeated('-g, --glob <glob>', 'search only files with such a name or path; can be repeated').sets(
        'globs',
      ),
      repeated('-t, --type <type>', 'search only files of a type, such as ts; can be repeated').sets(
        'fileTypes',
      ),
      option('-C, --context <lines>', 'lines of context around each match; by default 0').sets('context'),
      option('-l, --files', 'print only the paths'),
      option('-c, --count', 'print the number of matching lines of each file'),
      option('--limit <number>', 'the most results; by default 1000').sets('limit'),
    ],
  },
  {
    name: 'glob',
    does: 'find paths by patterns, such as "src/**/*.ts"',
    load: async () => (await textVerbs()).globPaths,
    takes: {
      '<session[:path]>': 'directory where relative patterns begin',
      '<pattern...>': 'globs; quote them for the shell',
    },
    options: [
      option('-d, --directories', 'print directories too'),
      option('--newest', 'print the newest change first'),
      option('--limit <number>', 'the most results; by default 1000').sets('limit'),
    ],
  },
  {
    name: 'edit',
    does: 'replace text in a file, and print the changed lines',
    load: async () => (await textVerbs()).editFile,
    takes: { '<session:path>': 'file' },
    options: [
      option('--old <text>', 'text to replace; it must be in the file exactly once')
        .sets('oldText')
        .makeOptionMandatory(),
      option('--new <text>', 'new text').sets('newText').makeOptionMandatory(),
      option('--all', 'replace all matches').sets('all'),
      option('--tolerant', 'without an exact match, ignore white space at the ends and starts of lines'),
      option('--dry-run', 'change nothing'),
      option('--expect <hash>', 'edit only if the file has this hash (sha256:…)').sets('expectedHash'),
    ],
  },
  {
    name: 'apply',
    does: 'apply a patch, and list its files: A added, D deleted, M modified, R renamed, C copied',
    load: async () => (await textVerbs()).applyPatch,
    takes: {
      '<session>': 'id, or the beginning of it',
      '<file>': 'unified patch, or patch in the format V4A; - for standard input',
    },
    options: [
      option('--dry-run', 'change nothing'),
      option('--strip <number>', 'leading names to remove from paths; by default 1 for a/ and b/').sets(
        'strip',
      ),
      option('--fuzz <lines>', 'lines of context that may differ; by default 0').sets('fuzz'),
    ],
  },
  {
    name: 'diff',
    does: 'list changed paths: A added, D removed, M modified',
    load: async () => (await diffVerbs()).showDiff,
    takes: {
      '<session>': 'session to compare; by default with its base',
      '[other]': 'session to compare the first one with',
    },
    options: [
      option('--checkpoint <label...>', 'compare a checkpoint with the current state or a second checkpoint'),
      option('--patch', 'print a unified diff of the contents, which git apply accepts'),
      option('--stat', 'print the numbers of added and removed lines'),
    ],
    note: 'Put --checkpoint after the session.',
  },
  {
    name: 'log',
    does: 'list the events of a session, oldest first',
    load: async () => (await sessionVerbs()).showLog,
    takes: { '<session>': 'id, or the beginning of it' },
    options: [
      option('--graph', 'draw the session with its ancestors and all of their forks, newest first'),
      option('--path <path>', 'list the changes of one path, newest first, through renames').conflicts(
        'graph',
      ),
    ],
  },
  {
    name: 'checkpoint',
    does: 'create a checkpoint of a session, and print its id',
    load: async () => (await sessionVerbs()).makeCheckpoint,
    takes: { '<session>': 'id, or the beginning of it', '[label]': 'label, unique within the session' },
    options: [metadataPairs()],
  },
  {
    name: 'restore',
    does: 'restore the files to an earlier state',
    load: async () => (await historyVerbs()).restoreSession,
    takes: { '<session>': 'id, or the beginning of it', '<state>': stateForms },
    options: [
      repeated('--path <path>', 'restore only this file or directory; can be repeated').sets('paths'),
      dryRun(),
    ],
  },
  {
    name: 'undo',
    does: 'undo the newest changes of files, and print their number',
    load: async () => (await historyVerbs()).undoChanges,
    takes: { '<session>': 'id, or the beginning of it' },
    options: stepOptions(),
  },
  {
    name: 'redo',
    does: 'repeat the changes that were undone last, and print their number',
    load: async () => (await historyVerbs()).redoChanges,
    takes: { '<session>': 'id, or the beginning of it' },
    options: stepOptions(),
  },
  {
    name: 'at',
    does: 'read an earlier state of a session',
    load: async () => (await historyVerbs()).showState,
    takes: {
      '<session>': 'id, or the beginning of it',
      '<state>': stateForms,
      '<action>': 'ls, cat or manifest',
      '[path]': 'directory of ls, file of cat, or prefix of the paths of manifest',
    },
  },
  {
    name: 'blame',
    does: 'list the events that last changed the lines of a file',
    load: async () => (await historyVerbs()).showBlame,
    takes: { '<session>': 'id, or the beginning of it', '<path>': 'text file' },
    options: [option('--at <state>', `state of the file: ${stateForms}`)],
  },
  {
    name: 'lineage',
    does: 'list the parent and the forks of a session',
    load: async () => (await historyVerbs()).showLineage,
    takes: {
      '<session>': 'id, or the beginning of it',
      '[other]': 'another session, to list the newest common ancestors too',
    },
  },
  {
    name: 'watch',
    does: 'print the changes of files, until interrupted',
    load: async () => (await historyVerbs()).watchChanges,
    takes: { '<session>': 'id, or the beginning of it' },
    options: [
      repeated('--glob <glob>', 'only paths that match this glob; can be repeated').sets('globs'),
      option('--after <event>', 'begin with the changes after this event').sets('afterEventId'),
      option('--once', 'end after the first batch'),
    ],
    note: 'Prints A added, D removed, M modified, or with --json each batch with its eventId, for --after.',
  },
  {
    name: 'merge',
    does: 'merge a session into another one; exit code 1: conflicts remain',
    load: async () => (await mergeVerbs()).mergeSessions,
    takes: { '<source>': 'session whose changes are merged', '<target>': 'session that changes' },
    options: mergeOptions(),
    note: mergeNote,
  },
  {
    name: 'rebase',
    does: 'move a session onto a newer revision of its source; exit code 1: conflicts remain',
    load: async () => (await mergeVerbs()).rebaseSession,
    takes: {
      '<session>': 'id, or the beginning of it',
      '[revision]': 'id or label of the revision; by default the latest',
    },
    options: mergeOptions(),
    note: mergeNote,
  },
  {
    name: 'conflicts',
    does: 'list the unresolved conflicts of a merge or rebase: C, kind, path',
    load: async () => (await mergeVerbs()).listConflicts,
    takes: { '<session>': 'id, or the beginning of it' },
  },
  {
    name: 'resolve',
    does: 'resolve a conflict, and print the number of conflicts that are left',
    load: async () => (await mergeVerbs()).resolveConflicts,
    takes: { '<session>': 'id, or the beginning of it', '[path]': 'path of the conflict, unless --all' },
    options: [
      option('--all', 'resolve all conflicts, with the files of one side'),
      option('--ours', 'take the file from before the merge'),
      option('--theirs', 'take the file of the source'),
      option('--base', 'take the file of the common ancestor'),
      option('--content <file>', 'take a file of this host, or - for standard input').sets('content'),
      option('--deleted', 'delete the file'),
    ],
  },
  {
    name: 'abort',
    does: 'restore the files from before a merge or rebase with unresolved conflicts',
    load: async () => (await mergeVerbs()).abortMerge,
    takes: { '<session>': 'id, or the beginning of it' },
  },
  {
    name: 'commit',
    does: 'create a git commit, push it if a branch is given, and print its id',
    load: async () => (await sessionVerbs()).commitSession,
    takes: { '<session>': 'id, or the beginning of it' },
    options: [
      option('-m, --message <message>', 'commit message').sets('message').makeOptionMandatory(),
      option('--branch <branch>', 'branch to push to; by default the commit stays in the store').sets(
        'gitBranch.branchName',
      ),
      option('--author <author>', "'Name <email>'; by default the principal").sets(
        'author',
        'author.name',
        'author.email',
      ),
      option('--allow-empty', 'create a commit even if the last commit on the branch has the same files'),
      ...gitRemote(),
    ],
  },
  {
    name: 'commits',
    does: 'list the git commits of a session, newest first',
    load: async () => (await sessionVerbs()).showCommits,
    takes: { '<session>': 'id, or the beginning of it' },
    options: [option('--branch <branch>', 'only commits of this branch').sets('branchName')],
  },
  {
    name: 'export',
    does: 'write a session or revision as a tar archive (needs a store)',
    load: async () => (await exportVerbs()).exportTree,
    takes: {
      '<session|source@revision>': 'session, or revision of a source; source@ is the latest revision',
    },
    options: [
      option('-o, --output <file>', 'file to write; by default standard output'),
      option('--bundle', 'write a bundle of a session with its history, for session import'),
      option('--git-bundle', 'write the commits of a session as a git bundle, for git fetch'),
      option(
        '--branch <branch>',
        'with --git-bundle, the branch to write; by default commits without one',
      ).sets('branchName'),
    ],
  },
  {
    name: 'checkout',
    does: 'write a session to a directory, or update the directory (needs a store)',
    load: async () => (await exportVerbs()).checkOut,
    takes: {
      '<session>': 'id, or the beginning of it',
      '<directory>': 'directory; the first time it must be missing or empty',
    },
    options: [option('--force', 'overwrite changes in the directory'), gitNames()],
  },
  {
    name: 'sync',
    does: 'copy the changes in a directory of checkout back to the session (needs a store)',
    load: async () => (await exportVerbs()).syncDirectory,
    takes: {
      '<session>': 'id, or the beginning of it',
      '<directory>': 'directory to which the session was checked out',
    },
    options: [gitNames()],
  },
  {
    name: 'mcp',
    does: 'serve a session over MCP on standard input and output, until the input ends',
    load: async () => (await mcpVerbs()).serveMcp,
    takes: { '<session>': 'id, or the beginning of it' },
    note: 'Needs the package @modelcontextprotocol/server. Standard output carries only the protocol.',
  },
  {
    name: 'mount',
    does: 'serve a session over WebDAV on loopback and mount it, until SIGINT or SIGTERM',
    load: async () => (await mountVerbs()).mountSession,
    takes: {
      '<session>': 'id, or the beginning of it',
      '[directory]': 'directory to mount at, missing or empty; by default only the server runs',
    },
    options: [
      option('--write', 'let programs change the files; by default they only read').sets('write'),
      option('--port <port>', 'port of 127.0.0.1 to listen on; 0, the default, selects a free port'),
    ],
    note: 'Mounts with davfs2, on Linux as root. Otherwise it prints the URL, a password, and a command to mount it.',
  },
  {
    name: 'inspect',
    does: 'serve a page to look at a store or a server, until SIGINT or SIGTERM',
    load: async () => (await inspectVerbs()).inspect,
    takes: { '[place]': 'directory of the store, or URL of a server; by default that of the options' },
    takesPlace: true,
    options: [
      option(
        '--write',
        'allow restore, undo, merge, and decisions about approvals; by default the page only reads',
      ).sets('write'),
      option('--port <port>', 'port of 127.0.0.1 to listen on; 0, the default, selects a free port'),
    ],
    note: 'Open the printed URL in a browser. Its token gives access to the page: do not share it.',
  },
]

/** All verbs for the files of a store, in the order of the help. They follow the other verbs. */
export const filesVerbs: readonly FilesVerb[] = [
  {
    name: 'check',
    does: 'check the files of a store without changing them; exit code 1: there are findings',
    load: async () => (await storeVerbs()).checkFiles,
    onPostgres: 'call engine.check() in a program',
    takes: { '<directory>': 'directory of the store, which may be in use' },
    options: [option('--read-data', 'also read and verify all contents')],
  },
  {
    name: 'repair',
    does: 'create a new store from the intact data of a damaged one; exit code 1: there was damage',
    load: async () => (await storeVerbs()).repairFiles,
    onPostgres: 'restore a backup of the database',
    takes: {
      '<directory>': 'directory of the damaged store, which is not changed',
      '<new-directory>': 'directory of the new store; missing or empty',
    },
  },
  {
    name: 'backup',
    does: 'copy a store and verify the copy',
    load: async () => (await storeVerbs()).backUp,
    onPostgres: 'use pg_dump',
    takes: {
      '<directory>': 'directory of the store, which may be in use',
      '<target>': 'directory of the copy; missing or empty',
    },
  },
]

function option(flags: string, description: string): Flag {
  return new Flag(flags, description)
}

/** An option that can be repeated. It collects its values. */
export function repeated(flags: string, description: string): Flag {
  return new Flag(flags, description).argParser((value: string, previous: readonly string[] | undefined) =>
    previous === undefined ? [value] : [...previous, value],
  )
}

function metadataPairs(): Option {
  return repeated('--metadata <key=value>', 'metadata; the value is JSON or text; can be repeated').sets(
    'metadata',
  )
}

function dryRun(): Option {
  return option('--dry-run', 'change nothing, and list the paths that would change').sets('dryRun')
}

function mergeOptions(): Option[] {
  return [
    dryRun(),
    repeated(
      '--policy <glob=policy>',
      'ours, theirs, union, markers or fail for the conflicts of some paths; can be repeated',
    ).sets('policies'),
  ]
}

function stepOptions(): Option[] {
  return [
    option('--count <number>', 'number of changes or groups; by default 1').sets('count'),
    option('--group', 'count changes of one group as one').sets('by'),
    dryRun(),
  ]
}

/** The option of every verb that reads an archive, or reads or writes a checkout. */
function gitNames(): Option {
  return option('--allow-git-names', 'allow names that git or a file system treats as .git').sets(
    'allowGitNames',
  )
}

/** The options of every verb that connects to a git remote. */
function gitRemote(): Option[] {
  return [
    option('--allow-private-git', 'allow git remotes on loopback and private addresses').sets(
      'git.allowPrivateAddresses',
    ),
    option('--username <name>', 'user name for the git remote; by default the one used with tokens'),
    option('--password-env <variable>', 'variable that contains the password or token for the git remote'),
    option('--password-file <file>', 'file whose only line is the password or token for the git remote'),
  ]
}
