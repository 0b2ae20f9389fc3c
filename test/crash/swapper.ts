/** Swaps directories and files of a tree for symlinks to another place and back, until it is killed. */
import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  openSync,
  renameSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import process from 'node:process'
import { randomWords } from '../../src/testing.js'
import type { SwapperArguments } from './swap.js'

const { directory, places, seed } = JSON.parse(process.argv[2]!) as SwapperArguments
const random = randomWords(seed)
const openFlags = constants.O_DIRECTORY | constants.O_NOFOLLOW
const root = openSync(directory, openFlags)

/** Ignores failures caused by concurrent changes of the tree. */
function attempt(step: () => void): void {
  try {
    step()
  } catch {
    // The next round sees another state.
  }
}

/** Runs a step with a path through an open directory, so that nothing outside is swapped by mistake. */
function at(place: string, step: (path: string) => void): void {
  const names = place.split('/')
  const opened: number[] = []
  try {
    for (const name of names.slice(0, -1))
      opened.push(openSync(`/proc/self/fd/${opened.at(-1) ?? root}/${name}`, openFlags))
    step(`/proc/self/fd/${opened.at(-1) ?? root}/${names.at(-1)!}`)
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

function swap(path: string, outside: string): void {
  const link = `${path}.link`
  const kept = `${path}.kept`
  // Restores the state that an earlier round could not restore.
  attempt(() => {
    if (lstatSync(path).isSymbolicLink()) unlinkSync(path)
  })
  if (!existsSync(path)) attempt(() => renameSync(kept, path))
  attempt(() => symlinkSync(outside, link))
  attempt(() => renameSync(path, kept))
  attempt(() => renameSync(link, path))
  // Keeps the swap in place for a varying time.
  for (let wait = random() % 200; wait > 0; wait--) existsSync(path)
  attempt(() => renameSync(path, link))
  attempt(() => renameSync(kept, path))
}

process.stdout.write('ready\n')
for (;;) {
  const { place, outside } = places[random() % places.length]!
  attempt(() => at(place, (path) => swap(path, outside)))
}
