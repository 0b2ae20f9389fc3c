import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { promises as fs } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execPath } from 'node:process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createHost } from '../../src/adapters/host/index.js'
import type { Host, HostTree, TreeSink } from '../../src/engine/ports.js'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'

export interface SwapOptions {
  readonly tries: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface SwapResult {
  /** Operations on names while they were being swapped. */
  readonly tries: number
  /** The number of operations that met a symlink, or nothing, in place of a file or directory. */
  readonly met: number
  /** Reads and changes of files outside. */
  readonly escapes: number
  /** The same number of attempts that check a path and then open it, and how often they read files outside. */
  readonly control: { readonly tries: number; readonly escapes: number }
}

export interface SwapperArguments {
  readonly directory: string
  readonly places: readonly { readonly place: string; readonly outside: string }[]
  readonly seed: number
}

const secret = 'content outside the tree'
const onlyOutside = 'only-outside'
const directories = ['d0', 'd1', 'd2', 'd0/e0', 'd0/e1', 'd1/e0', 'd1/e0/f0', 'd2/e0/f0/g0']
const files = ['a', 'b', 'c']

/**
 * Scans a tree, writes a session to it and reads it back while another process swaps its directories and files for
 * symlinks to a place outside. Counts the reads and changes that reach that place.
 */
export async function runSwaps(options: SwapOptions): Promise<SwapResult> {
  const scratch = await fs.realpath(await fs.mkdtemp(join(tmpdir(), 'swap-')))
  const attack = new Attack(scratch, options)
  try {
    return await attack.run()
  } finally {
    await fs.rm(scratch, { recursive: true, force: true })
  }
}

class Attack {
  readonly #root: string
  readonly #outside: string
  readonly #options: SwapOptions
  readonly #random: () => number
  #host!: Host
  #tries = 0
  #met = 0
  #escapes = 0
  #before = ''

  constructor(scratch: string, options: SwapOptions) {
    this.#root = join(scratch, 'root')
    this.#outside = join(scratch, 'outside')
    this.#options = options
    this.#random = randomWords(options.seed)
  }

  async run(): Promise<SwapResult> {
    await this.#make(this.#outside, () => secret)
    for (const directory of ['', ...directories])
      await fs.writeFile(join(this.#outside, directory, onlyOutside), secret)
    await this.#make(join(this.#root, 'source'), (path) => `inside ${path}`)
    await this.#make(join(this.#root, 'target'), (path) => `inside ${path}`)
    this.#before = await this.#lookOutside()
    this.#host = createHost({ roots: [this.#root] })
    const engine = await openEngine({ hostPaths: { roots: [this.#root] } })
    const children = ['source', 'target'].map((name) => this.#swap(name))
    try {
      await Promise.all(children.map((child) => child.ready))
      const session = await this.#session(engine)
      let lastReported = 0
      for (let round = 0; this.#tries < this.#options.tries; round++) {
        await this.#scan()
        await this.#tree()
        await this.#checkout(engine, session, round)
        await this.#look()
        if (this.#tries - lastReported < 5000) continue
        lastReported = this.#tries
        this.#options.onProgress(`${this.#tries} tries, ${this.#met} met a swap, ${this.#escapes} escapes`)
      }
      return {
        tries: this.#tries,
        met: this.#met,
        escapes: this.#escapes,
        control: await this.#control(Math.min(this.#options.tries, 20_000)),
      }
    } finally {
      for (const { child } of children) child.kill('SIGKILL')
      await Promise.all(children.map(({ exited }) => exited))
      await engine.close()
    }
  }

  #swap(name: string) {
    const names = [
      ...directories,
      ...['', ...directories].flatMap((directory) => files.map((file) => join(directory, file))),
    ]
    const places = names.map((place) => ({ place, outside: join(this.#outside, place) }))
    const directory = join(this.#root, name)
    const settings: SwapperArguments = { directory, places, seed: this.#random() }
    const script = fileURLToPath(new URL('swapper.js', import.meta.url))
    const child = spawn(execPath, [script, JSON.stringify(settings)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ready = once(createInterface({ input: child.stdout }), 'line')
    return { child, ready, exited: once(child, 'exit') }
  }

  async #make(directory: string, content: (path: string) => string): Promise<void> {
    await fs.mkdir(directory, { recursive: true })
    for (const name of directories) await fs.mkdir(join(directory, name), { recursive: true })
    for (const name of ['', ...directories])
      for (const file of files) await fs.writeFile(join(directory, name, file), content(join(name, file)))
  }

  async #session(engine: Engine): Promise<Session> {
    const contents: Record<string, string> = {}
    for (const directory of ['', ...directories])
      for (const file of files) contents[join('/', directory, file)] = 'session'
    return engine.sessions.create({ files: contents })
  }

  /** Scans the tree as a source import does, from scratch each time. */
  async #scan(): Promise<void> {
    const seen = (path: string): void => {
      this.#tries++
      if (path.endsWith(onlyOutside)) this.#escaped(`a scan saw ${path}`)
    }
    const sink: TreeSink = {
      directory: seen,
      file: async (path, content) => {
        seen(path)
        const pieces: Uint8Array[] = []
        if (content instanceof Uint8Array) pieces.push(content)
        else for await (const piece of content) pieces.push(piece)
        if (Buffer.concat(pieces).includes(secret)) this.#escaped(`a scan read ${path}`)
      },
      symlink: (path) => {
        seen(path)
        this.#met++
      },
      hardLink: (_existing, path) => seen(path),
      remove: (path) => {
        seen(path)
        this.#met++
      },
    }
    const texts = new Map<string, string>()
    await this.#refusable(() =>
      this.#host.scan({ path: join(this.#root, 'source') }, sink, {
        signal: new AbortController().signal,
        onProgress: () => undefined,
        index: {
          get: (path) => Promise.resolve(texts.get(path)),
          set: (path, text) => {
            texts.set(path, text)
          },
          delete: (path) => {
            texts.delete(path)
          },
        },
      }),
    )
  }

  /** Takes each step of a checkout on random names, without checking them first. */
  async #tree(): Promise<void> {
    await this.#refusable(async () => {
      const tree = await this.#host.open(join(this.#root, 'target'), { create: true })
      try {
        for (let i = 0; i < 40; i++) {
          this.#tries++
          await this.#refusable(() => this.#step(tree))
        }
      } finally {
        await tree.close()
      }
    })
  }

  async #step(tree: HostTree): Promise<void> {
    const directory = directories[this.#random() % directories.length]!
    const path = `/${directory}/${files[this.#random() % files.length]!}`
    const attributes = { mode: 0o600, mtimeMs: 1_000_000 }
    const content = async function* (): AsyncGenerator<Uint8Array> {
      yield Buffer.from('written')
    }
    switch (this.#random() % 8) {
      case 0:
        return void (await tree.writeFile(path, content(), attributes))
      case 1: {
        const read = await tree.read(path, async (pieces) => {
          let found = false
          for await (const piece of pieces) found ||= Buffer.from(piece).includes(secret)
          return found
        })
        if (read === undefined) this.#met++
        if (read?.value === true) this.#escaped(`read ${path}`)
        return
      }
      case 2: {
        const listed = await tree.list(`/${directory}`)
        if (listed === undefined) this.#met++
        if (listed?.entries.some(({ name }) => name === onlyOutside) === true) this.#escaped(`list ${path}`)
        return
      }
      case 3:
        return void (await tree.setAttributes(path, attributes))
      case 4:
        return void (await tree.setAttributes(`/${directory}`, { mode: 0o711, mtimeMs: 1_000_000 }))
      case 5:
        await tree.writeSymlink(`/${directory}/z`, 'target', attributes)
        return tree.remove(`/${directory}/z`)
      case 6:
        await tree.makeDirectory(`/${directory}/y`)
        return void (await tree.removeDirectory(`/${directory}/y`))
      default: {
        const stat = await tree.stat(path)
        if (stat !== undefined) await tree.link(path, `/${directory}/x`, stat.ino)
        return tree.remove(`/${directory}/x`)
      }
    }
  }

  /** Checks out over the existing files, as a user does. */
  async #checkout(engine: Engine, session: Session, round: number): Promise<void> {
    await session.files.write({ path: `/d0/e0/${files[round % files.length]!}`, content: `${round}` })
    await this.#refusable(async () => {
      const count = { now: 0 }
      try {
        const checkout = await session.checkout(join(this.#root, 'target'), {
          force: true,
          onProgress: ({ filesProcessed }) => {
            count.now = filesProcessed
          },
        })
        const { added, modified, removed } = await checkout.sync()
        this.#tries += added.length + modified.length + removed.length
        this.#met += removed.length
      } finally {
        this.#tries += count.now
      }
    })
    for await (const { path, kind } of session.diff()) {
      if (path.endsWith(onlyOutside)) this.#escaped(`a sync saw ${path}`)
      if (kind !== 'file') continue
      const content = await session.files.read({ path }).catch(() => new Uint8Array())
      if (Buffer.from(content).includes(secret)) this.#escaped(`a sync read ${path}`)
    }
  }

  /** Whether the files outside are unchanged. */
  async #look(): Promise<void> {
    const now = await this.#lookOutside()
    if (now !== this.#before) this.#escaped('something outside was changed')
    this.#before = now
  }

  async #lookOutside(): Promise<string> {
    const lines: string[] = []
    for (const name of (await fs.readdir(this.#outside, { recursive: true })).sort()) {
      const { mode, mtimeMs, size, nlink, ino } = await fs.lstat(join(this.#outside, name))
      lines.push([name, mode, mtimeMs, size, nlink, ino].join(' '))
    }
    return lines.join('\n')
  }

  /** The control: compares paths and then opens them. */
  async #control(tries: number): Promise<SwapResult['control']> {
    let escapes = 0
    const source = join(this.#root, 'source')
    for (let i = 0; i < tries; i++) {
      const directory = directories[this.#random() % directories.length]!
      const path = join(source, directory, files[this.#random() % files.length]!)
      try {
        if ((await fs.realpath(path)) !== path) continue
        if ((await fs.readFile(path, 'utf8')).includes(secret)) escapes++
      } catch {
        // Nothing was there.
      }
    }
    return { tries, escapes }
  }

  #escaped(what: string): void {
    this.#escapes++
    this.#options.onProgress(`ESCAPE ${what}`)
  }

  /** Runs work that may be rejected but must not fail in any other way. */
  async #refusable(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!(error instanceof EngineError) || !/^(HOST_|CHECKOUT_)/.test(error.reason)) throw error
      this.#met++
    }
  }
}
