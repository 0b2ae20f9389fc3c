import { Command, CommanderError, Option } from 'commander'
import { version } from '../../engine/ports.js'
import { Context } from './context.js'
import { describeFailure, ExitCode, exitCodeOf, failureAsJson, OutputClosed, UsageError } from './failure.js'
import { Output } from './output.js'
import { printableText } from './printable.js'
import { parsePlaceOptions, type TargetOptions } from './target.js'
import type { World } from './world.js'

/** Loads a verb when it is run. What it takes is what its command declares. */
type LoadVerb = () => Promise<(context: Context, args: never, options: never) => Promise<void>>

interface VerbOptions extends TargetOptions {
  readonly json?: boolean
}

const sourceVerbs = () => import('./source-verbs.js')
const sessionVerbs = () => import('./session-verbs.js')
const fileVerbs = () => import('./file-verbs.js')
const diffVerbs = () => import('./diff-verbs.js')
const exportVerbs = () => import('./export-verbs.js')
const storeVerbs = () => import('./store-verbs.js')

/** Runs the command with its arguments; resolves to the exit code. Prints what goes wrong, and never rejects. */
export async function run(args: readonly string[], world: World = process): Promise<number> {
  // A reader that went away is no failure; what else may go wrong, verbs see themselves.
  for (const stream of [world.stdout, world.stderr]) stream.on('error', () => undefined)
  const program = new Program(world, { json: wantsJson(args) })
  try {
    await program.command.parseAsync(args, { from: 'user' })
    return program.exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage
    return tell(world, error, false)
  }
}

/** For what is said of a command line that was not understood. */
function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return (end < 0 ? args : args.slice(0, end)).includes('--json')
}

function tell({ stderr }: World, error: unknown, json: boolean): number {
  if (!(error instanceof OutputClosed))
    stderr.write(json ? `${failureAsJson(error)}\n` : `forkspace: ${describeFailure(error)}\n`)
  return exitCodeOf(error)
}

class Program {
  readonly command: Command
  exitCode: number = ExitCode.ok
  readonly #verbs: Command[] = []
  readonly #world: World

  constructor(world: World, { json }: { readonly json: boolean }) {
    this.#world = world
    this.command = new Command('forkspace')
      .description('Versioned, isolated workspaces: serve a store of them, or work on one.')
      .version(version, '-V, --version', 'print the version')
      .helpOption('-h, --help', 'print help')
      .helpCommand(false)
      .exitOverride()
      .configureOutput({
        writeOut: (text) => {
          world.stdout.write(text)
        },
        writeErr: (text) => {
          world.stderr.write(text)
        },
        outputError: (text, write) => {
          const message = text.replace(/^error: /, '').trimEnd()
          const failure = new UsageError(printableText(message))
          write(json ? `${failureAsJson(failure)}\n` : `forkspace: ${failure.message}\n`)
        },
      })
      .addHelpText('after', manual)
    this.#addServe()
    this.#addSources(this.command.command('source').description('sources: durable baselines of sessions'))
    this.#addSessions(this.command.command('session').description('sessions: the workspaces'))
    this.#addFiles()
    this.#addHistory()
    this.#addDirectories()
    this.#addStores()
    this.#addCompletion()
    for (const verb of this.#verbs) addPlaceOptions(verb)
  }

  #addServe(): void {
    this.command
      .command('serve')
      .description('serve a store over HTTP until SIGINT or SIGTERM')
      .option('--storage <directory>', "directory of the store, or 'memory'", 'memory')
      .option('--host <host>', 'name or address to listen on', '127.0.0.1')
      .option('--port <port>', '0: one that is free', '0')
      .addOption(
        repeated(
          '--token <token[@tenant/principal]>',
          'token that is let in, and for whom it acts; may be repeated. By default FORKSPACE_TOKEN, or one that is made and printed',
        ),
      )
      .addOption(repeated('--allow-host <name>', 'further name in the Host header of requests'))
      .addOption(repeated('--allow-host-path <directory>', 'directory below which sources may be read'))
      .option('--allow-private-git', 'allow git remotes on loopback and private addresses')
      .option('--log <format>', 'json or pretty, on standard error', 'pretty')
      .option('--master-key-file <file>', 'key of secrets: 32 bytes in hex or base64')
      .addHelpText('after', serveManual)
      .action(async (options) => {
        const { serveStore } = await import('./serve.js')
        this.exitCode = await serveStore(options, this.#world.env)
      })
  }

  #addSources(parent: Command): void {
    this.#verb(
      parent,
      'add',
      'add a source and import it; prints its id',
      async () => (await sourceVerbs()).addSource,
    )
      .argument(
        '<what>',
        'git url (http, https), directory, repository, archive (tar, tar.gz, zip) or git bundle; - reads one of the last two from standard input',
      )
      .option('--name <name>', 'name to show; by default that of what is added')
      .addOption(repeated('--label <key=value>', 'label; may be repeated'))
      .option('--ref <ref>', 'branch, tag or commit to import; by default HEAD')
      .option('--kind <kind>', 'git, directory, repository, archive or bundle; by default seen from its form')
      .option('--no-import', 'add it only')
      .addOption(privateGit())
      .addOption(username())
      .addOption(passwordEnv())
      .addOption(passwordFile())
    this.#verb(
      parent,
      'import',
      'import a source again, or for the first time; prints the revision',
      async () => (await sourceVerbs()).importSource,
    )
      .argument('<source>', 'id, or its beginning')
      .argument('[what]', 'ref of a git source; archive or bundle for an uploaded one, or -')
      .option('--ref <ref>', 'ref to import, of a bundle too')
      .addOption(privateGit())
      .addOption(username())
      .addOption(passwordEnv())
      .addOption(passwordFile())
    this.#verb(
      parent,
      'refresh',
      'read a source again where it lives; prints the revision',
      async () => (await sourceVerbs()).refreshSource,
    )
      .argument('<source>', 'id, or its beginning')
      .argument('[ref]', 'ref of a git source')
      .addOption(privateGit())
      .addOption(username())
      .addOption(passwordEnv())
      .addOption(passwordFile())
    this.#verb(
      parent,
      'ls',
      'list sources: id, kind, status, revision, name, labels',
      async () => (await sourceVerbs()).listSources,
    ).option('--filter <key=value>', 'only those with this label')
    this.#verb(
      parent,
      'rm',
      'remove sources; sessions on them stay (needs a store)',
      async () => (await sourceVerbs()).removeSources,
    ).argument('<source...>', 'ids, or their beginnings')
  }

  #addSessions(parent: Command): void {
    this.#verb(
      parent,
      'create',
      'create a session; prints its id',
      async () => (await sessionVerbs()).createSession,
    )
      .option('--source <source>', 'source to start from; without one the session is empty')
      .option('--revision <revision>', 'revision of the source, or its label; by default the latest')
      .addOption(repeated('--tag <key=value>', 'tag; may be repeated'))
    this.#verb(
      parent,
      'ls',
      'list sessions: id, status, time of creation, tags',
      async () => (await sessionVerbs()).listSessions,
    ).option('--filter <key=value>', 'only those with this tag')
    this.#verb(
      parent,
      'show',
      'show a session and its checkpoints',
      async () => (await sessionVerbs()).showSession,
    ).argument('<session>', 'id, or its beginning')
    this.#verb(
      parent,
      'fork',
      'fork a session; prints the id of the fork',
      async () => (await sessionVerbs()).forkSession,
    )
      .argument('<session>', 'id, or its beginning')
      .option('--checkpoint <label>', 'checkpoint to fork; by default the current state')
      .addOption(repeated('--tag <key=value>', 'tag, beside those of the session; may be repeated'))
    this.#verb(
      parent,
      'import',
      'make a session of a bundle that export --bundle wrote; prints its id (needs a store)',
      async () => (await exportVerbs()).importSession,
    ).argument('<file>', 'bundle; - is standard input')
    this.#verb(
      parent,
      'rm',
      'remove sessions; forks of them stay',
      async () => (await sessionVerbs()).removeSessions,
    ).argument('<session...>', 'ids, or their beginnings')
  }

  #addFiles(): void {
    const parent = this.command
    this.#verb(parent, 'ls', 'list files', async () => (await fileVerbs()).listFiles)
      .argument('<session[:path]>', 'directory, or one file')
      .option('-l, --long', 'kind, mode and size too')
      .option('-R, --recursive', 'everything below')
    this.#verb(
      parent,
      'cat',
      'print a file, byte for byte',
      async () => (await fileVerbs()).printFile,
    ).argument('<session:path>', 'file')
    this.#verb(
      parent,
      'put',
      'write a file; missing directories are made',
      async () => (await fileVerbs()).putFile,
    )
      .argument('<file>', 'file of this host; - is standard input')
      .argument('<session:path>', 'where to')
      .option('--mode <mode>', 'permission bits in octal, as 755; by default kept, and 644 of a new file')
      .option('--expect <hash>', "only if the file has this hash (sha256:…), or, with '', does not exist")
    this.#verb(
      parent,
      'diff',
      'list what differs: A added, D removed, M modified',
      async () => (await diffVerbs()).showDiff,
    )
      .argument('<session>', 'session; alone it is compared with what it started from')
      .argument('[other]', 'session to compare the first one with')
      .option('--checkpoint <label...>', 'compare from one checkpoint, to a second one or to now')
      .option('--patch', 'as a unified diff of the contents')
      .addHelpText(
        'after',
        '\nPut --checkpoint behind the session. With --server two sessions can be compared, without --patch.',
      )
  }

  #addHistory(): void {
    const parent = this.command
    this.#verb(
      parent,
      'log',
      'list the events of a session, oldest first',
      async () => (await sessionVerbs()).showLog,
    ).argument('<session>', 'id, or its beginning')
    this.#verb(
      parent,
      'checkpoint',
      'name the current state of a session; prints the id of the checkpoint',
      async () => (await sessionVerbs()).makeCheckpoint,
    )
      .argument('<session>', 'id, or its beginning')
      .argument('[label]', 'unique in its session')
    this.#verb(
      parent,
      'restore',
      'make the files what they were at a checkpoint',
      async () => (await sessionVerbs()).restoreSession,
    )
      .argument('<session>', 'id, or its beginning')
      .argument('<checkpoint>', 'label, id, or the beginning of an id')
    this.#verb(
      parent,
      'commit',
      'write a git commit, and push it if a branch is given; prints the id of the commit',
      async () => (await sessionVerbs()).commitSession,
    )
      .argument('<session>', 'id, or its beginning')
      .requiredOption('-m, --message <message>', 'message of the commit')
      .option('--branch <branch>', 'branch to push to; without one the commit stays in the store')
      .option('--author <author>', "'Name <email>'; by default the principal who acts")
      .addOption(privateGit())
      .addOption(username())
      .addOption(passwordEnv())
      .addOption(passwordFile())
  }

  #addDirectories(): void {
    const parent = this.command
    this.#verb(
      parent,
      'export',
      'write a session or revision as a tar (needs a store)',
      async () => (await exportVerbs()).exportTree,
    )
      .argument('<session|source@revision>', 'nothing behind the @ is the latest revision')
      .option('-o, --output <file>', 'file to write; by default standard output')
      .option('--bundle', 'a session with its history, for session import')
    this.#verb(
      parent,
      'checkout',
      'write a session to a directory, or bring it up to date there (needs a store)',
      async () => (await exportVerbs()).checkOut,
    )
      .argument('<session>', 'id, or its beginning')
      .argument('<directory>', 'missing or empty, the first time')
      .option('--force', 'overwrite what is in the way')
    this.#verb(
      parent,
      'sync',
      'bring back what was changed in a directory of checkout (needs a store)',
      async () => (await exportVerbs()).syncDirectory,
    )
      .argument('<session>', 'id, or its beginning')
      .argument('<directory>', 'where the session was checked out')
  }

  /** On the files of a store, which is not opened. */
  #addStores(): void {
    const parent = this.command
    const json = ['--json', 'print one JSON document'] as const
    parent
      .command('check')
      .description('look through a store, in use or not, and change nothing; 1: something is wrong with it')
      .argument('<directory>', 'of the store')
      .option('--read-data', 'read every content too')
      .option(...json)
      .action((directory: string, options) =>
        this.#onFiles(options, async () => (await storeVerbs()).checkFiles(this.#world, directory, options)),
      )
    parent
      .command('repair')
      .description(
        'make a whole store of what is left of a damaged one; 1: something is lost, which it tells',
      )
      .argument('<directory>', 'of the store; it stays as it is')
      .argument('<new-directory>', 'missing or empty')
      .option(...json)
      .action((directory: string, newDirectory: string, options) =>
        this.#onFiles(options, async () =>
          (await storeVerbs()).repairFiles(this.#world, directory, newDirectory, options),
        ),
      )
    parent
      .command('backup')
      .description('copy a store, in use or not; the copy is a store')
      .argument('<directory>', 'of the store')
      .argument('<target>', 'directory, missing or empty')
      .option(...json)
      .action((directory: string, target: string, options) =>
        this.#onFiles(options, async () =>
          (await storeVerbs()).backUp(this.#world, directory, target, options),
        ),
      )
  }

  /** What could not be done is told by exit code 2: 1 is what they found. */
  async #onFiles(options: { readonly json?: boolean }, work: () => Promise<number>): Promise<void> {
    try {
      this.exitCode = await work()
    } catch (error) {
      this.exitCode =
        tell(this.#world, error, options.json === true) === ExitCode.ok ? ExitCode.ok : ExitCode.usage
    }
  }

  #addCompletion(): void {
    this.command
      .command('completion')
      .description('print a script that completes commands and options')
      .argument('<shell>', 'bash or zsh')
      .action(async (shell: string) => {
        const { completionScript } = await import('./completion.js')
        this.#world.stdout.write(completionScript(this.command, shell))
      })
  }

  #verb(parent: Command, name: string, description: string, load: LoadVerb): Command {
    const verb = parent.command(name)
    this.#verbs.push(verb)
    return verb.description(description).action(async (...given: unknown[]) => {
      const command = given.at(-1) as Command
      this.exitCode = await runVerb(this.#world, command, load)
    })
  }
}

/** Of every verb, behind its own. */
function addPlaceOptions(verb: Command): void {
  verb
    .optionsGroup('Where:')
    .option('--store <directory>', 'store to open in this process (FORKSPACE_STORE)')
    .option('--server <url>', 'server to ask (FORKSPACE_SERVER)')
    .option('--token <token>', 'of the server (FORKSPACE_TOKEN, which does not show in lists of processes)')
    .option('--as <tenant/principal>', 'who acts on a store; local/local by default')
    .option('--json', 'print JSON: one document, or one a line')
}

async function runVerb(world: World, command: Command, load: LoadVerb): Promise<number> {
  const options = command.opts<VerbOptions>()
  const out = new Output(world.stdout, { json: options.json === true })
  let context: Context | undefined
  try {
    try {
      context = new Context(parsePlaceOptions(options, world.env), world, out)
      const verb = await load()
      await verb(context, command.processedArgs as never, options as never)
      await out.flush()
    } finally {
      await context?.close()
    }
    return ExitCode.ok
  } catch (error) {
    return tell(world, error, out.json)
  }
}

function repeated(flags: string, description: string): Option {
  return new Option(flags, description).argParser((value: string, previous: readonly string[] | undefined) =>
    previous === undefined ? [value] : [...previous, value],
  )
}

function privateGit(): Option {
  return new Option('--allow-private-git', 'allow git remotes on loopback and private addresses')
}

function username(): Option {
  return new Option('--username <name>', 'for a git remote that asks; by default what goes with a token')
}

function passwordEnv(): Option {
  return new Option('--password-env <variable>', 'variable with the password or token for the git remote')
}

function passwordFile(): Option {
  return new Option(
    '--password-file <file>',
    'file with the password or token for the git remote, on one line',
  )
}

const manual = `
Sessions and sources are named by their ids, or by what these begin with.
Exit codes: 0 done, 1 failed, 2 not understood.

Examples:
  export FORKSPACE_STORE=./workspaces
  source=$(forkspace source add https://example.org/app.git)
  session=$(forkspace session create --source $source --tag task=42)
  forkspace put fix.ts $session:/src/fix.ts
  forkspace diff $session
  forkspace commit $session -m 'Fix it' --branch fix

  forkspace serve --storage ./workspaces --port 8080`

const serveManual = `
Standard output begins with the line 'forkspace listening on <url>'.
FORKSPACE_TOKEN may hold a token, FORKSPACE_MASTER_KEY the key of secrets. Without a key a directory gets one
of its own, in the file master.key.`
