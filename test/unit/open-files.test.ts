/** Files of a repository that are kept open for later reads. */
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeEach, afterEach, expect, test } from 'vitest'
import { FileGone, OpenFiles, type FilePlace } from '../../src/adapters/git/local/open-files.js'
import { temporaryDirectory } from '../support/temporary-directory.js'

let directory: string
let handles: FileHandle[]

beforeEach(async () => {
  directory = await mkdtemp(join(temporaryDirectory(), 'open-files-'))
  handles = []
  for (const name of ['a', 'b', 'c']) await writeFile(join(directory, name), name)
})

afterEach(() => rm(directory, { recursive: true }))

function place(name: string): FilePlace {
  return {
    key: name,
    async open() {
      const handle = await open(join(directory, name))
      handles.push(handle)
      return handle
    },
  }
}

const areOpen = (): boolean[] => handles.map(({ fd }) => fd >= 0)

test('a file given up by one reader is closed by its last reader and reopened for the next', async () => {
  const files = new OpenFiles(10)
  let end!: () => void
  const reading = files.use(place('a'), async ({ handle }) => {
    await new Promise<void>((resolve) => (end = resolve))
    return String(await handle.readFile())
  })
  const gone = files.use(place('a'), () => Promise.reject(new FileGone()))
  await expect(gone).rejects.toBeInstanceOf(FileGone)
  expect(areOpen()).toEqual([true])
  end()
  expect(await reading).toBe('a')
  expect(areOpen()).toEqual([false])
  await files.use(place('a'), () => Promise.resolve())
  expect(areOpen()).toEqual([false, true])
  await files.close()
  expect(areOpen()).toEqual([false, false])
})

test('closes the least recently used file above the limit, but none that is being read', async () => {
  const files = new OpenFiles(2)
  const use = (name: string): Promise<void> => files.use(place(name), () => Promise.resolve())
  await files.use(place('a'), async () => {
    await use('b')
    await use('c')
    expect(areOpen()).toEqual([true, false, true])
  })
  expect(areOpen()).toEqual([true, false, true])
  await use('b')
  expect(areOpen()).toEqual([false, false, true, true])
  await files.close()
  expect(areOpen().includes(true)).toBe(false)
})
