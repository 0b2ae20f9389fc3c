/**
 * Runs files of Node's own tests in turn, with a session in place of the disk. Each file gets its own session and its
 * own `process` for its exit handlers. A file has ended when the event loop is empty. Prints one line of JSON for each
 * file to descriptor 3.
 *
 * Arguments: the directory of the tests, then the names of the files.
 */
import { EventEmitter } from 'node:events'
import nodeFs from 'node:fs'
import { createRequire } from 'node:module'
import { join, posix } from 'node:path'
import vm from 'node:vm'
import { openEngine, type Session } from '../../src/index.js'
import { testModule } from './test-module.js'

export interface Outcome {
  readonly file: string
  /** null if the file passed. */
  readonly error: string | null
  readonly skipped: boolean
}

/** The directory of the tests in the session. The path does not exist on the host. */
const root = '/node-tests/test'
/** Thrown by `process.exit`, which must not return. */
const exited = new Error('process.exit was called')

const [directory = '', ...files] = process.argv.slice(2)
const hostRequire = createRequire(import.meta.url)
const sources = new Map<string, string>()

/** The `process` of one file, with its own handlers and exit code. */
class FileProcess {
  readonly events = new EventEmitter()
  exitCode: number | undefined
  exitCalled = false
  readonly proxy: NodeJS.Process

  constructor() {
    this.events.setMaxListeners(0)
    const own: Record<string, unknown> = {
      exit: (code?: number) => {
        this.exitCode = code ?? this.exitCode ?? 0
        this.exitCalled = true
        throw exited
      },
      chdir: () => undefined,
      umask: () => 0o022,
    }
    const ofEmitter = [
      'on',
      'once',
      'off',
      'addListener',
      'removeListener',
      'emit',
      'listenerCount',
      'removeAllListeners',
    ]
    for (const name of [...ofEmitter, 'listeners', 'prependListener', 'prependOnceListener']) {
      const method = this.events[name as 'on'] as (...given: unknown[]) => unknown
      own[name] = (...given: unknown[]) => method.apply(this.events, given)
    }
    this.proxy = new Proxy(process, {
      get: (target, name) => {
        if (name === 'exitCode') return this.exitCode
        if (typeof name === 'string' && Object.hasOwn(own, name)) return own[name]
        return Reflect.get(target, name) as unknown
      },
      set: (target, name, value) => {
        if (name === 'exitCode') this.exitCode = value as number
        else own[name as string] = value
        return true
      },
    })
  }
}

/** All modules: Node 20 sometimes crashes when the garbage collector frees one of them before its evaluation. */
const keptModules: vm.Module[] = []

type Wrapped = (process: unknown, console: unknown) => (this: unknown, ...given: unknown[]) => void

class TestFile {
  readonly name: string
  readonly process = new FileProcess()
  readonly session: Session
  #error: unknown
  #failed = false
  #skipped = false
  readonly #modules = new Map<string, { exports: unknown }>()

  constructor(name: string, session: Session) {
    this.name = name
    this.session = session
  }

  run(): void {
    const path = posix.join(root, 'parallel', this.name)
    if (!this.name.endsWith('.mjs')) {
      this.guard(() => this.#load(path))
      return
    }
    this.#runModule(path).catch((error: unknown) => this.fail(error))
  }

  guard(run: () => void): void {
    try {
      run()
    } catch (error) {
      this.fail(error)
    }
  }

  /** Records an error that was not caught. */
  fail(error: unknown, event = 'uncaughtException'): void {
    if (error === exited) return
    const { events } = this.process
    if (events.listenerCount(event) > 0) {
      this.guard(() => events.emit(event, error, event))
      return
    }
    this.#error ??= error
    this.#failed = true
  }

  /** Notifies the file's handlers once that the loop is empty, since they may start more work. */
  mayGoOn(): boolean {
    if (this.#emptied) return false
    this.#emptied = true
    this.guard(() => this.process.events.emit('beforeExit', 0))
    setImmediate(() => undefined)
    return true
  }

  #emptied = false

  outcome(): Outcome {
    const { events } = this.process
    const code = this.process.exitCode ?? 0
    for (const listener of events.listeners('exit'))
      this.guard(() => (listener as (code: number) => void)(code))
    const exitCode = this.process.exitCode ?? 0
    const failed = this.#diagnostics || (exitCode === 0 ? null : `exit code ${exitCode}`)
    const error = this.#failed ? shown(this.#error) : failed
    return { file: this.name, error, skipped: this.#skipped }
  }

  #diagnostics = ''

  readonly #console = {
    ...console,
    log: (...said: unknown[]): void => {
      const text = said.join(' ')
      if (text.startsWith('1..0 # Skipped')) this.#skipped = true
      if (text.startsWith('Mismatched')) this.#diagnostics += `${said.slice(1).join(' ')}; `
    },
    error: (): void => undefined,
    warn: (): void => undefined,
  }

  #load(path: string): unknown {
    const known = this.#modules.get(path)
    if (known !== undefined) return known.exports
    const module = { exports: {} as unknown, filename: path, id: path }
    this.#modules.set(path, module)
    const require = Object.assign((wanted: string) => this.#require(wanted, path), { main: module })
    // These are not parameters of one function, because a file may declare `process` itself.
    const head =
      '(function (process, console) { return function (exports, require, module, __filename, __dirname) {'
    const wrap = vm.runInThisContext(`${head}${source(path)}\n}})`, { filename: path }) as Wrapped
    const run = wrap(this.process.proxy, this.#console)
    run.call(module.exports, module.exports, require, module, path, posix.dirname(path))
    return module.exports
  }

  #require(wanted: string, from: string): unknown {
    const { fs } = this.session
    switch (wanted.replace(/^node:/, '')) {
      case 'fs':
        return fs
      case 'fs/promises':
        return fs.promises
      case 'process':
        return this.process.proxy
      case 'test':
        return (this.#test ??= testModule((error) => this.fail(error)))
    }
    if (!wanted.startsWith('.')) return hostRequire(wanted)
    const path = posix.resolve(posix.dirname(from), wanted)
    const candidates = [path, `${path}.js`, `${path}/index.js`].map((one) =>
      one.replace(/index\.mjs$/, 'index.js').replace(/fixtures\.mjs$/, 'fixtures.js'),
    )
    return this.#load(
      candidates.find((one) => nodeFs.statSync(hostPath(one), { throwIfNoEntry: false })?.isFile()) ?? path,
    )
  }

  #test: ReturnType<typeof testModule> | undefined

  async #runModule(path: string): Promise<void> {
    const own = ['process', 'console'].filter((name) => !new RegExp(`import ${name} from`).test(source(path)))
    const text = own.map((name) => `const ${name} = import.meta.${name}; `).join('') + source(path)
    const module = new vm.SourceTextModule(text, {
      identifier: path,
      initializeImportMeta: (meta) => {
        Object.assign(meta, {
          url: `file://${path}`,
          filename: path,
          dirname: posix.dirname(path),
          process: this.process.proxy,
          console: this.#console,
        })
      },
    })
    keptModules.push(module)
    await module.link((wanted) => synthetic(this.#require(wanted, path)))
    await module.evaluate()
  }
}

/** A module with the properties of a value, which is also its default export. */
function synthetic(value: unknown): vm.SyntheticModule {
  const named = Object.keys(value as object).filter((name) => name !== 'default')
  const module = new vm.SyntheticModule([...named, 'default'], function () {
    for (const name of named) this.setExport(name, (value as Record<string, unknown>)[name])
    this.setExport('default', value)
  })
  keptModules.push(module)
  return module
}

function hostPath(path: string): string {
  return join(directory, posix.relative(root, path))
}

function source(path: string): string {
  let text = sources.get(path)
  if (text === undefined) sources.set(path, (text = nodeFs.readFileSync(hostPath(path), 'utf8')))
  return text
}

function shown(error: unknown): string {
  return error instanceof Error ? String(error.stack) : String(error)
}

/** All files of a host directory, by their paths in the session. */
function filesBelow(path: string, at: string, into: Record<string, Buffer> = {}): Record<string, Buffer> {
  for (const entry of nodeFs.readdirSync(path, { withFileTypes: true })) {
    const [from, to] = [join(path, entry.name), posix.join(at, entry.name)]
    if (entry.isDirectory()) filesBelow(from, to, into)
    else into[to] = nodeFs.readFileSync(from)
  }
  return into
}

const engine = await openEngine()
const base = await engine.sessions.create({
  files: filesBelow(join(directory, 'fixtures'), posix.join(root, 'fixtures')),
})
base.fs.mkdirSync(posix.join(root, 'parallel'))
base.fs.mkdirSync(posix.join(root, 'fixtures/keys'))
base.fs.mkdirSync('/tmp')
await base.flush()

let current: TestFile | undefined
process.on('uncaughtException', (error) => current?.fail(error))
process.on('unhandledRejection', (error) => current?.fail(error, 'unhandledRejection'))
process.on('warning', (warning) => {
  const events = current?.process.events
  current?.guard(() => events!.emit('warning', warning))
})

/** The loop is empty, so the file has ended and the next one starts. */
process.on('beforeExit', () => {
  if (current?.mayGoOn() === true) return
  const ended = current
  current = undefined
  if (ended !== undefined) report(ended.outcome())
  const name = files.shift()
  if (name !== undefined) setImmediate(() => void start(name))
})

async function start(name: string): Promise<void> {
  const session = await base.fork()
  session.fs.writeFileSync(
    posix.join(root, 'parallel', name),
    nodeFs.readFileSync(join(directory, 'parallel', name)),
  )
  current = new TestFile(name, session)
  nodeFs.writeSync(3, `${JSON.stringify({ started: name })}\n`)
  current.run()
}

function report(outcome: Outcome): void {
  try {
    nodeFs.writeSync(3, `${JSON.stringify(outcome)}\n`)
  } catch {
    // A file that changed Object.prototype makes a successful write look failed.
  }
}
