import { Command, CommanderError } from 'commander'
import { version } from '../../engine/ports.js'
import { Context } from './context.js'
import { describeFailure, ExitCode, exitCodeOf, failureAsJson, OutputClosed, UsageError } from './failure.js'
import { flagsOf, type InFlags } from './flags.js'
import { Output } from './output.js'
import { requireDirectory } from './postgres-url.js'
import { printableText } from './printable.js'
import { parsePlaceOptions, type TargetOptions } from './target.js'
import { filesVerbs, groups, repeated, verbs, type FilesVerb, type Verb } from './verbs.js'
import type { World } from './world.js'

interface VerbOptions extends TargetOptions {
  readonly json?: boolean
}

/** Runs the command line. Resolves with the exit code. Prints errors, and never rejects. */
export async function run(args: readonly string[], world: World = process): Promise<number> {
  // It is not a failure if the reader closed the pipe. The verbs handle all other errors of the streams.
  for (const stream of [world.stdout, world.stderr]) stream.on('error', () => undefined)
  const program = new Program(world, args)
  try {
    const words = args[0] === 'help' ? wordsOfHelp(program.command, args.slice(1)) : args
    await program.command.parseAsync(words, { from: 'user' })
    return program.exitCode
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.ok : ExitCode.usage
    return report(world, error, false)
  }
}

/** The arguments that print the help of a command. Without such a command, its own words, which are a usage error. */
function wordsOfHelp(program: Command, words: readonly string[]): readonly string[] {
  return commandOf(program, words).rest.length > 0 ? words : [...words, '--help']
}

/** The command that the first words name, and the words after it. */
function commandOf(
  program: Command,
  words: readonly string[],
): { command: Command; rest: readonly string[] } {
  let command = program
  for (const [i, word] of words.entries()) {
    const next = command.commands.find((one) => one.name() === word || one.aliases().includes(word))
    if (next === undefined) return { command, rest: words.slice(i) }
    command = next
  }
  return { command, rest: [] }
}

/** Whether to print usage errors as JSON. */
function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf('--')
  return (end < 0 ? args : args.slice(0, end)).includes('--json')
}

function report({ stderr }: World, error: unknown, json: boolean, inFlags?: InFlags): number {
  if (!(error instanceof OutputClosed))
    stderr.write(
      json ? `${failureAsJson(error, inFlags)}\n` : `forkspace: ${describeFailure(error, inFlags)}\n`,
    )
  return exitCodeOf(error)
}

class Program {
  readonly command: Command
  exitCode: number = ExitCode.ok
  readonly #world: World
  readonly #args: readonly string[]
  readonly #serve: Command

  constructor(world: World, args: readonly string[]) {
    this.#world = world
    this.#args = args
    const json = wantsJson(args)
    this.command = new Command('forkspace')
      .description('Versioned, isolated workspaces: serve a store over HTTP, or work on one.')
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
          const said = text.replace(/^error: /, '').trimEnd()
          const failure = new UsageError(printableText(this.#withAdvice(said)))
          write(json ? `${failureAsJson(failure)}\n` : `forkspace: ${failure.message}\n`)
        },
      })
      .addHelpText('after', manual)
    this.#serve = this.#addServe()
    for (const verb of verbs) this.#addVerb(verb)
    for (const verb of filesVerbs) this.#addFilesVerb(verb)
    this.#addCompletion()
  }

  #addServe(): Command {
    return this.command
      .command('serve')
      .description('serve a store over HTTP until SIGINT or SIGTERM')
      .option(
        '--storage <place>',
        "directory of the store, postgres:// URL of a database, or 'memory'",
        'memory',
      )
      .option('--schema <name>', 'schema of a store on PostgreSQL; forkspace by default')
      .option('--shared', 'lets other processes serve the same schema with --shared')
      .option('--host <host>', 'name or address to listen on', '127.0.0.1')
      .option('--port <port>', 'port to listen on; 0 selects a free port', '0')
      .addOption(
        repeated(
          '--token <token[@tenant/principal]>',
          'accepted token, and the caller it belongs to; can be repeated. By default FORKSPACE_TOKEN, or a generated token, which is printed',
        ),
      )
      .addOption(
        repeated('--allow-host <name>', 'additional accepted name in the Host header; can be repeated'),
      )
      .addOption(
        repeated('--allow-host-path <directory>', 'directory that sources may be read from; can be repeated'),
      )
      .option('--allow-private-git', 'allow git remotes on loopback and private addresses')
      .option('--allow-git-names', 'allow archives with names that git or a file system treats as .git')
      .option('--no-self-approval', 'refuse an approval by the principal that requested it')
      .option('--git', 'serve the sessions as git repositories too, for git clone and git fetch')
      .option('--git-push', 'like --git, and accept git push')
      .option('--collect', 'collect garbage automatically when it is half of the store and at least 64 MiB')
      .option('--log <format>', 'format of the log on standard error: json or pretty', 'pretty')
      .option(
        '--master-key-file <file>',
        'file with the master key of secrets: 32 bytes, raw or in hex or base64',
      )
      .addHelpText('after', serveManual)
      .action(async (options) => {
        const { serveStore } = await import('./serve.js')
        this.exitCode = await serveStore(options, this.#world)
      })
  }

  #addVerb(verb: Verb): void {
    const command = this.#declared(verb).action(async () => {
      this.exitCode = await runVerb(this.#world, command, verb, this.#serve)
    })
    if (verb.note !== undefined) command.addHelpText('after', `\n${verb.note}`)
    addPlaceOptions(command)
  }

  /** Errors of these verbs have exit code 2, because 1 means that the verb found damage. */
  #addFilesVerb(verb: FilesVerb): void {
    const command = this.#declared(verb)
      .option('--json', 'print one JSON document')
      .action(async () => {
        const options = command.opts<VerbOptions>()
        try {
          for (const given of command.processedArgs)
            requireDirectory(verb.name, String(given), verb.onPostgres)
          const work = await verb.load()
          this.exitCode = await work(this.#world, command.processedArgs as never, options as never)
        } catch (error) {
          const code = report(this.#world, error, options.json === true)
          this.exitCode = code === ExitCode.ok ? code : ExitCode.usage
        }
      })
  }

  #declared({ name, aliases = [], does, takes = {}, options = [] }: Verb | FilesVerb): Command {
    const [first, second] = name.split(' ') as [string, string?]
    const command = second === undefined ? this.command.command(first) : this.#group(first).command(second)
    command.description(does)
    if (aliases.length > 0) command.aliases(aliases)
    for (const [form, description] of Object.entries(takes)) command.argument(form, description)
    for (const option of options) command.addOption(option)
    return command
  }

  /** Says what to do about a usage error. Some verbs exist only after another word, as in `session fork`. */
  #withAdvice(said: string): string {
    if (/^(too many|missing required) argument/.test(said))
      return `${said.replace(/\.$/, '')}; ${this.#form()}`
    if (/^unknown option '--(store|server|token|as|json)'$/.test(said)) return said + this.#placeOfOption()
    const name = /^unknown command '([^']*)'/.exec(said)?.[1]
    if (name === undefined) return said
    const isVerb = (command: Command): boolean => [command.name(), ...command.aliases()].includes(name)
    const full = this.command.commands
      .filter(({ commands }) => commands.some(isVerb))
      .map((group) => `"forkspace ${group.name()} ${name}"`)
    if (full.length > 0) return `unknown command '${name}'; did you mean ${full.join(' or ')}?`
    return said.includes('Did you mean') ? said : `${said}; "forkspace --help" lists the commands`
  }

  /** The form of the command that the arguments name. */
  #form(): string {
    const { command } = commandOf(this.command, this.#args)
    const words: string[] = []
    for (let one: Command | null = command; one !== null; one = one.parent) words.unshift(one.name())
    const takes = command.registeredArguments.map((argument) => {
      const name = `${argument.name()}${argument.variadic ? '...' : ''}`
      return argument.required ? `<${name}>` : `[${name}]`
    })
    return `the form is: ${[...words, ...takes].join(' ')}`
  }

  /** Where an option of most verbs belongs. */
  #placeOfOption(): string {
    if (this.#args[0]?.startsWith('-') === true)
      return '; put it after the command, as in "forkspace session list --store ./store"'
    const verb = filesVerbs.find(({ name }) => name === this.#args[0])
    return verb === undefined ? '' : `; ${this.#form()}`
  }

  #group(name: string): Command {
    const found = this.command.commands.find((command) => command.name() === name)
    return (
      found ??
      this.command
        .command(name)
        .alias(`${name}s`)
        .description(groups[name] ?? '')
    )
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
}

/** Adds the options that every verb has. */
function addPlaceOptions(verb: Command): void {
  verb
    .optionsGroup('Where:')
    .option('--store <directory>', 'store to open in this process (FORKSPACE_STORE)')
    .option('--server <url>', 'server to connect to (FORKSPACE_SERVER)')
    .option('--token <token>', 'token for the server (FORKSPACE_TOKEN, which process lists do not show)')
    .option('--as <tenant/principal>', 'caller on a store; local/local by default')
    .option('--json', 'print JSON: one document, or one per line')
}

async function runVerb(world: World, command: Command, verb: Verb, serve: Command): Promise<number> {
  const options = command.opts<VerbOptions>()
  const out = new Output(world, { json: options.json === true })
  let context: Context | undefined
  try {
    try {
      const place = verb.takesPlace === true ? withPlace(options, command.processedArgs[0]) : options
      context = new Context(parsePlaceOptions(place, world.env), world, out)
      const work = await verb.load()
      const code = await work(context, command.processedArgs as never, options as never)
      await out.flush()
      return code ?? ExitCode.ok
    } finally {
      await context?.close()
      await out.end()
    }
  } catch (error) {
    return report(world, error, out.json, flagsOf(command, context?.remote === true ? serve : undefined))
  }
}

/** The options with the store or the server that an argument names. */
function withPlace(options: VerbOptions, given: unknown): VerbOptions {
  if (typeof given !== 'string') return options
  if (options.store !== undefined || options.server !== undefined)
    throw new UsageError('pass the store or the server once: as an argument, or with --store or --server')
  return /^https?:/i.test(given) ? { ...options, server: given } : { ...options, store: given }
}

const manual = `
Sessions and sources are given by id, or by the beginning of an id.
Exit codes: 0 success, 1 failure, 2 usage error.

Examples:
  export FORKSPACE_STORE=./workspaces
  source=$(forkspace source add https://example.org/app.git)
  session=$(forkspace session create --source $source --tag task=42)
  forkspace put fix.ts $session:/src/fix.ts
  forkspace diff $session
  forkspace commit $session -m 'Fix it' --branch fix

  forkspace serve --storage ./workspaces --port 8080`

const serveManual = `
The first line on standard output is 'forkspace listening on <url>'.
FORKSPACE_TOKEN can contain a token, and FORKSPACE_MASTER_KEY the master key of secrets. Without a key, serve creates
the file master.key in the directory of the store. On PostgreSQL it refuses secrets instead.
PGPASSWORD can contain the password of a database. Process lists show the one in a URL.`
