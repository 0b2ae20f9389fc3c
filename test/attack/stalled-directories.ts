import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Host directories with FIFOs in place of files and directories. Nothing writes to the FIFOs. */
export interface StalledDirectories extends AsyncDisposable {
  /** The paths of sources, by the names of their stalls. */
  readonly paths: Readonly<Record<string, string>>
  readonly root: string
}

export async function makeStalledDirectories(): Promise<StalledDirectories> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'stalled-directories-')))
  const paths = {
    'a FIFO among files': join(root, 'among'),
    'a FIFO in the place of the directory': join(root, 'instead'),
    'a symlink to a FIFO in the place of the directory': join(root, 'link'),
    'files that become FIFOs and files again': join(root, 'swapped'),
  }
  for (const directory of [paths['a FIFO among files'], paths['files that become FIFOs and files again']]) {
    await mkdir(join(directory, 'd'), { recursive: true })
    for (let n = 0; n < 40; n++) await writeFile(join(directory, n % 2 === 0 ? 'd' : '.', `f${n}`), 'x')
  }
  const among = paths['a FIFO among files']
  execFileSync('mkfifo', [
    join(among, 'pipe'),
    join(among, 'd', 'pipe'),
    paths['a FIFO in the place of the directory'],
  ])
  await symlink('pipe', join(among, 'to-pipe'))
  await symlink('instead', paths['a symlink to a FIFO in the place of the directory'])
  const swapping = new AbortController()
  const swapped = swap(paths['files that become FIFOs and files again'], swapping.signal)
  return {
    paths,
    root,
    async [Symbol.asyncDispose]() {
      swapping.abort()
      await swapped
      await rm(root, { recursive: true })
    },
  }
}

/** Repeatedly replaces one file after another with a FIFO and puts the file back. */
async function swap(directory: string, signal: AbortSignal): Promise<void> {
  const fifo = join(directory, '..', 'swapped-fifo')
  const aside = join(directory, '..', 'swapped-file')
  execFileSync('mkfifo', [fifo])
  for (let n = 0; !signal.aborted; n = (n + 1) % 40) {
    const file = join(directory, n % 2 === 0 ? 'd' : '.', `f${n}`)
    await rename(file, aside)
    await rename(fifo, file)
    await nextTurn()
    await rename(file, fifo)
    await rename(aside, file)
  }
}
