import { execFile, execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kill } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { requireChecked } from './check.js'
import { runUntilKilled } from './child.js'
import type { Line, WriterArguments } from './protocol.js'
import { Verifier } from './verifier.js'

export interface PowerOptions {
  readonly cuts: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface PowerResult {
  cuts: number
  acknowledged: number
  lost: number
  torn: number
}

const run = promisify(execFile)
const cutsPerImage = 8
/**
 * EXT4_IOC_SHUTDOWN, after flushing the journal (1) or without flushing it (2): nothing reaches the disk afterwards.
 */
const shutdown = (flags: number): string =>
  `import fcntl, os, struct, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", ${flags}))`

/**
 * Cuts the power of a file system while a process writes to a store on it. The process is stopped first, or continues
 * for a while on the failed disk.
 */
export async function runPowerCuts(options: PowerOptions): Promise<PowerResult> {
  const random = randomWords(options.seed)
  const result: PowerResult = { cuts: 0, acknowledged: 0, lost: 0, torn: 0 }
  while (result.cuts < options.cuts && result.lost + result.torn === 0) {
    const parent = await mkdtemp(join(tmpdir(), 'power-'))
    const image = await Image.make(parent)
    const verifier = new Verifier(random, options.onProgress)
    try {
      for (let cuts = 0; cuts < cutsPerImage && result.cuts < options.cuts && !verifier.damaged; cuts++) {
        await cutOnce(image, verifier, random, cuts)
        result.cuts++
        options.onProgress(`${result.cuts}/${options.cuts} cuts, ${verifier.acknowledged} acknowledged`)
      }
    } finally {
      await image.unmount()
    }
    result.acknowledged += verifier.acknowledged
    result.lost += verifier.lost
    result.torn += verifier.torn
    if (verifier.damaged) options.onProgress(`kept for inspection: ${parent}`)
    else await rm(parent, { recursive: true })
  }
  return result
}

async function cutOnce(image: Image, verifier: Verifier, random: () => number, cuts: number): Promise<void> {
  const report = join(image.parent, `report-${cuts}`)
  const settings: WriterArguments = {
    directory: join(image.mounted, 'data'),
    report,
    durability: 'full',
    seed: random(),
    firstNumber: cuts * 1_000_000,
    pending: 1 + (random() % 64),
    mayFail: true,
  }
  const opening = random() % 6 === 0
  const delayMs = random() % (opening ? 40 : 500)
  const flags = 1 + (random() % 2)
  const stops = random() % 2 === 0
  const failingMs = random() % 60
  let cutAt: number | undefined
  await runUntilKilled(
    'writer.js',
    settings,
    { line: opening ? 'opening' : 'ready', delayMs },
    {
      beforeKill: async (pid) => {
        if (stops) await stop(pid)
        cutAt = (await stat(report).catch(() => undefined))?.size ?? 0
        await image.cut(flags)
        // A writer that continues sees every disk call fail.
        if (!stops) await sleep(failingMs)
      },
    },
  )
  await image.remount()
  verifier.readReport(reportUntil(await readFile(report).catch(() => Buffer.alloc(0)), cutAt))
  const engine = await openEngine({ storage: levelStorage(settings.directory) })
  await requireChecked(engine)
  await verifier.check(engine)
  await engine.close()
}

/**
 * A report without the acknowledgements after a byte offset. The system may report success for a sync that the cut
 * overtakes, so only acknowledgements from before the cut count.
 */
function reportUntil(report: Buffer, end = report.length): string {
  const late = report.toString('utf8', end).split('\n').slice(0, -1)
  const calls = late.filter((line) => (JSON.parse(line) as Line).kind !== 'settled')
  return [report.toString('utf8', 0, end), ...calls.map((line) => `${line}\n`)].join('')
}

/** Resolves when the process is stopped; its system calls may continue. */
async function stop(pid: number): Promise<void> {
  kill(pid, 'SIGSTOP')
  const isStopped = async (): Promise<boolean> => / [TZ] /.test(await readFile(`/proc/${pid}/stat`, 'utf8'))
  while (!(await isStopped())) await new Promise((resolve) => setImmediate(resolve))
}

/** The reason why power cannot be cut here, or undefined. */
export async function whyNoPowerCuts(): Promise<string | undefined> {
  const parent = await mkdtemp(join(tmpdir(), 'power-'))
  try {
    const image = await Image.make(parent)
    try {
      await image.cut(2)
    } finally {
      await image.unmount()
    }
    return undefined
  } catch (error) {
    return (error as Error).message.split('\n')[0]
  } finally {
    await rm(parent, { recursive: true })
  }
}

/** A file system in a file. */
class Image {
  readonly parent: string
  readonly mounted: string

  private constructor(parent: string) {
    this.parent = parent
    this.mounted = join(parent, 'mounted')
  }

  static async make(parent: string): Promise<Image> {
    const image = new Image(parent)
    await mkdir(image.mounted)
    await run('truncate', ['-s', '128M', image.#file])
    await run('mkfs.ext4', ['-q', image.#file])
    await image.#mount()
    return image
  }

  get #file(): string {
    return join(this.parent, 'image')
  }

  async cut(flags: number): Promise<void> {
    await run('python3', ['-c', shutdown(flags), this.mounted])
  }

  async remount(): Promise<void> {
    await this.unmount()
    await this.#mount()
  }

  async unmount(): Promise<void> {
    execFileSync('umount', [this.mounted])
  }

  async #mount(): Promise<void> {
    await run('mount', ['-o', 'loop', this.#file, this.mounted])
  }
}
