import type { Option } from 'commander'
import type { Context } from './context.js'
import { Flag } from './flags.js'
import type { World } from './world.js'

interface VerbShape {
  /** Behind that of its group, where it has one. */
  readonly name: string
  /** Other names for the last word of the name. */
  readonly aliases?: readonly string[]
  readonly does: string
  readonly takes?: Arguments
  readonly options?: readonly Option[]
}

/** What each argument is, by its form. */
type Arguments = Readonly<Record<string, string>>

/** What is done in a store or on a server. It is loaded when it is run, and takes what its row declares. */
export interface Verb extends VerbShape {
  /** Stands below the options. */
  readonly note?: string
  readonly load: () => Promise<(context: Context, args: never, options: never) => Promise<void>>
}

/** What is done with the files of a store, which is not opened; gives the exit code. */
export interface FilesVerb extends VerbShape {
  readonly load: () => Promise<(world: World, args: never, options: never) => Promise<number>>
}

/** What groups of verbs are about, by their names. */
export const groups: Readonly<Record<string, string>> = {
  source: 'sources: durable baselines of sessions',
  session: 'sessions: the workspaces',
}

const sourceVerbs = () => import('./source-verbs.js')
const sessionVerbs = () => import('./session-verbs.js')
const fileVerbs = () => import('./file-verbs.js')
const diffVerbs = () => import('./diff-verbs.js')
const exportVerbs = () => import('./export-verbs.js')
const storeVerbs = () => import('./store-verbs.js')

/** In the order of the help. */
export const verbs: readonly Verb[] = [
  {
    name: 'source add',
    aliases: ['create'],
    does: 'add a source and import it; prints its id',
    load: async () => (await sourceVerbs()).addSource,
    takes: {
      '<what>':
        'git url (http, https), directory, repository, archive (tar, tar.gz, zip) or git bundle; - reads one of the last two from standard input',
    },
    options: [
      option('--name <name>', 'name to show; by default that of what is added').sets('displayName'),
      repeated('--label <key=value>', 'label; may be repeated').sets('labels'),
      option('--ref <ref>', 'branch, tag or commit to import; by default HEAD').sets(
        'gitRemote.defaultRef',
        'gitRepository.defaultRef',
        'uploadedGitBundle.defaultRef',
        'git.gitRef',
        'uploadedGitBundle.gitRef',
      ),
      option('--kind <kind>', 'git, directory, repository, archive or bundle; by default seen from its form'),
      option('--no-import', 'add it only'),
      gitNames(),
      ...gitRemote(),
    ],
  },
  {
    name: 'source import',
    does: 'import a source again, or for the first time; prints the revision',
    load: async () => (await sourceVerbs()).importSource,
    takes: {
      '<source>': 'id, or its beginning',
      '[what]': 'ref of a git source; archive or bundle for an uploaded one, or -',
    },
    options: [
      option('--ref <ref>', 'ref to import, of a bundle too').sets('git.gitRef', 'uploadedGitBundle.gitRef'),
      gitNames(),
      ...gitRemote(),
    ],
  },
  {
    name: 'source refresh',
    does: 'read a source again where it lives; prints the revision',
    load: async () => (await sourceVerbs()).refreshSource,
    takes: { '<source>': 'id, or its beginning', '[ref]': 'ref of a git source' },
    options: gitRemote(),
  },
  {
    name: 'source ls',
    aliases: ['list'],
    does: 'list sources: id, kind, status, revision, name, labels',
    load: async () => (await sourceVerbs()).listSources,
    options: [option('--filter <key=value>', 'only those with this label').sets('filter')],
  },
  {
    name: 'source rm',
    aliases: ['remove', 'delete'],
    does: 'remove sources; sessions on them stay (needs a store)',
    load: async () => (await sourceVerbs()).removeSources,
    takes: { '<source...>': 'ids, or their beginnings' },
  },
  {
    name: 'session create',
    aliases: ['new'],
    does: 'create a session; prints its id',
    load: async () => (await sessionVerbs()).createSession,
    options: [
      option('--source <source>', 'source to start from; without one the session is empty'),
      option('--revision <revision>', 'revision of the source, or its label; by default the latest').sets(
        'sourceRef.revisionId',
      ),
      repeated('--tag <key=value>', 'tag; may be repeated').sets('initialTags'),
    ],
  },
  {
    name: 'session ls',
    aliases: ['list'],
    does: 'list sessions: id, status, time of creation, tags',
    load: async () => (await sessionVerbs()).listSessions,
    options: [option('--filter <key=value>', 'only those with this tag').sets('filter')],
  },
  {
    name: 'session show',
    aliases: ['get'],
    does: 'show a session and its checkpoints',
    load: async () => (await sessionVerbs()).showSession,
    takes: { '<session>': 'id, or its beginning' },
  },
  {
    name: 'session fork',
    does: 'fork a session; prints the id of the fork',
    load: async () => (await sessionVerbs()).forkSession,
    takes: { '<session>': 'id, or its beginning' },
    options: [
      option('--checkpoint <label>', 'checkpoint to fork; by default the current state'),
      repeated('--tag <key=value>', 'tag, beside those of the session; may be repeated').sets('newTags'),
    ],
  },
  {
    name: 'session import',
    does: 'make a session of a bundle that export --bundle wrote; prints its id (needs a store)',
    load: async () => (await exportVerbs()).importSession,
    takes: { '<file>': 'bundle; - is standard input' },
  },
  {
    name: 'session rm',
    aliases: ['remove', 'delete'],
    does: 'remove sessions; forks of them stay',
    load: async () => (await sessionVerbs()).removeSessions,
    takes: { '<session...>': 'ids, or their beginnings' },
  },
  {
    name: 'ls',
    aliases: ['list'],
    does: 'list files',
    load: async () => (await fileVerbs()).listFiles,
    takes: { '<session[:path]>': 'directory, or one file' },
    options: [option('-l, --long', 'kind, mode and size too'), option('-R, --recursive', 'everything below')],
  },
  {
    name: 'cat',
    does: 'print a file, byte for byte',
    load: async () => (await fileVerbs()).printFile,
    takes: { '<session:path>': 'file' },
  },
  {
    name: 'put',
    does: 'write a file; missing directories are made',
    load: async () => (await fileVerbs()).putFile,
    takes: { '<file>': 'file of this host; - is standard input', '<session:path>': 'where to' },
    options: [
      option('--mode <mode>', 'permission bits in octal, as 755; by default kept, and 644 of a new file'),
      option(
        '--expect <hash>',
        "only if the file has this hash (sha256:…), or, with '', does not exist",
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
      '<destination>': 'new path in the same session; an existing directory takes it in',
    },
  },
  {
    name: 'rm',
    aliases: ['remove', 'delete'],
    does: 'remove files; with -r directories too',
    load: async () => (await fileVerbs()).removePaths,
    takes: { '<session:path...>': 'files, symlinks or directories' },
    options: [
      option('-r, --recursive', 'remove directories with everything in them'),
      option('-f, --force', 'ignore paths that do not exist'),
    ],
  },
  {
    name: 'diff',
    does: 'list what differs: A added, D removed, M modified',
    load: async () => (await diffVerbs()).showDiff,
    takes: {
      '<session>': 'session; alone it is compared with what it started from',
      '[other]': 'session to compare the first one with',
    },
    options: [
      option('--checkpoint <label...>', 'compare from one checkpoint, to a second one or to now'),
      option('--patch', 'as a unified diff of the contents'),
    ],
    note: 'Put --checkpoint behind the session. With --server two sessions can be compared, without --patch.',
  },
  {
    name: 'log',
    does: 'list the events of a session, oldest first',
    load: async () => (await sessionVerbs()).showLog,
    takes: { '<session>': 'id, or its beginning' },
  },
  {
    name: 'checkpoint',
    does: 'name the current state of a session; prints the id of the checkpoint',
    load: async () => (await sessionVerbs()).makeCheckpoint,
    takes: { '<session>': 'id, or its beginning', '[label]': 'unique in its session' },
  },
  {
    name: 'restore',
    does: 'make the files what they were at a checkpoint',
    load: async () => (await sessionVerbs()).restoreSession,
    takes: { '<session>': 'id, or its beginning', '<checkpoint>': 'label, id, or the beginning of an id' },
  },
  {
    name: 'commit',
    does: 'write a git commit, and push it if a branch is given; prints the id of the commit',
    load: async () => (await sessionVerbs()).commitSession,
    takes: { '<session>': 'id, or its beginning' },
    options: [
      option('-m, --message <message>', 'message of the commit').sets('message').makeOptionMandatory(),
      option('--branch <branch>', 'branch to push to; without one the commit stays in the store').sets(
        'gitBranch.branchName',
      ),
      option('--author <author>', "'Name <email>'; by default the principal who acts").sets(
        'author',
        'author.name',
        'author.email',
      ),
      option('--allow-empty', 'make a commit also when the last one on the branch has the same files'),
      ...gitRemote(),
    ],
  },
  {
    name: 'export',
    does: 'write a session or revision as a tar (needs a store)',
    load: async () => (await exportVerbs()).exportTree,
    takes: { '<session|source@revision>': 'nothing behind the @ is the latest revision' },
    options: [
      option('-o, --output <file>', 'file to write; by default standard output'),
      option('--bundle', 'a session with its history, for session import'),
    ],
  },
  {
    name: 'checkout',
    does: 'write a session to a directory, or bring it up to date there (needs a store)',
    load: async () => (await exportVerbs()).checkOut,
    takes: { '<session>': 'id, or its beginning', '<directory>': 'missing or empty, the first time' },
    options: [option('--force', 'overwrite what is in the way'), gitNames()],
  },
  {
    name: 'sync',
    does: 'bring back what was changed in a directory of checkout (needs a store)',
    load: async () => (await exportVerbs()).syncDirectory,
    takes: { '<session>': 'id, or its beginning', '<directory>': 'where the session was checked out' },
    options: [gitNames()],
  },
]

/** In the order of the help, behind the others. */
export const filesVerbs: readonly FilesVerb[] = [
  {
    name: 'check',
    does: 'look through a store, in use or not, and change nothing; 1: something is wrong with it',
    load: async () => (await storeVerbs()).checkFiles,
    takes: { '<directory>': 'of the store' },
    options: [option('--read-data', 'read every content too')],
  },
  {
    name: 'repair',
    does: 'make a whole store of what is left of a damaged one; 1: something is lost, which it tells',
    load: async () => (await storeVerbs()).repairFiles,
    takes: { '<directory>': 'of the store; it stays as it is', '<new-directory>': 'missing or empty' },
  },
  {
    name: 'backup',
    does: 'copy a store, in use or not; the copy is a store',
    load: async () => (await storeVerbs()).backUp,
    takes: { '<directory>': 'of the store', '<target>': 'directory, missing or empty' },
  },
]

function option(flags: string, description: string): Flag {
  return new Flag(flags, description)
}

/** Its values are collected. */
export function repeated(flags: string, description: string): Flag {
  return new Flag(flags, description).argParser((value: string, previous: readonly string[] | undefined) =>
    previous === undefined ? [value] : [...previous, value],
  )
}

/** Of every verb that reads an archive, or writes or reads a checkout. */
function gitNames(): Option {
  return option('--allow-git-names', 'allow names that git or a file system takes for .git').sets(
    'allowGitNames',
  )
}

/** Of every verb that talks to a git remote. */
function gitRemote(): Option[] {
  return [
    option('--allow-private-git', 'allow git remotes on loopback and private addresses').sets(
      'git.allowPrivateAddresses',
    ),
    option('--username <name>', 'for a git remote that asks; by default what goes with a token'),
    option('--password-env <variable>', 'variable with the password or token for the git remote'),
    option('--password-file <file>', 'file with the password or token for the git remote, on one line'),
  ]
}
