/** Writes of large contents: when they are copied, and what happens meanwhile. */
import { Buffer } from 'node:buffer'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { levelStorage } from '../../src/adapters/level/index.js'
import { limits } from '../../src/engine/base/limits.js'
import { memoryStorage, openEngine, type Engine, type Session, type Storage } from '../../src/index.js'
import { turnsOf } from '../support/turns.js'

const size = limits.copiedAtOnceBytes + limits.blockBytes + 1
const blocks = Math.ceil(size / limits.blockBytes)

type Write = (session: Session, content: Uint8Array<ArrayBuffer>) => Promise<unknown>

/** Each promise that writes the bytes as the whole content of `/large`. */
const writes: Record<string, Write> = {
  'fs.promises.writeFile': ({ fs }, content) => fs.promises.writeFile('/large', content),
  'fs.promises.appendFile': ({ fs }, content) => fs.promises.appendFile('/large', content),
  'fs.write': ({ fs }, content) => promisify(fs.write)(fs.openSync('/large', 'w'), content),
  'files.write': ({ files }, content) => files.write({ path: '/large', content }),
  'files.append': ({ files }, content) => files.append({ path: '/large', content }),
  'files.batch': ({ files }, content) =>
    files.batch([{ write: { path: '/other', content: '' } }, { write: { path: '/large', content } }]),
}

function largeContent(): Uint8Array<ArrayBuffer> {
  const content = new Uint8Array(size)
  for (let i = 0; i < size; i += 1000) content[i] = i % 251
  return content
}

let directory: string
let engine: Engine
let session: Session

describe.each<[string, () => Storage]>([
  ['in memory', () => memoryStorage()],
  ['on disk', () => levelStorage(join(directory, 'store'), { durability: 'relaxed' })],
])('%s', (_, storage) => {
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'forkspace-large-'))
    engine = await openEngine({ storage: storage() })
    session = await engine.sessions.create()
  })

  afterEach(async () => {
    await engine.close()
    await rm(directory, { recursive: true })
  })

  describe.each(Object.entries(writes))('%s of large bytes', (_, write) => {
    test('yields to the event loop after each block, and keeps the order of the calls', async () => {
      const content = largeContent()
      const turns = turnsOf(() => write(session, content))
      const later = session.fs.promises.appendFile('/large', 'later')
      expect(await turns).toBeGreaterThanOrEqual(blocks)
      await later
      const found = await session.fs.promises.readFile('/large')
      expect(found.equals(Buffer.concat([content, Buffer.from('later')]))).toBe(true)
    })

    test('is refused without a change if the bytes are transferred meanwhile', async () => {
      const content = largeContent()
      const written = Promise.allSettled([write(session, content)])
      structuredClone(content, { transfer: [content.buffer] })
      const [result] = await written
      const { cause, message } = (result as PromiseRejectedResult).reason as Error
      // The functions of `fs` throw EINVAL with this cause.
      expect(cause instanceof Error ? cause.message : message).toBe(
        'content: was transferred or resized before the call ended',
      )
      const { nodes } = await session.manifest()
      expect(nodes.filter(({ sizeBytes }) => sizeBytes > 0)).toEqual([])
      expect(session.fs.existsSync('/other')).toBe(false)
    })
  })

  test('a synchronous write copies large bytes at once', async () => {
    const content = largeContent()
    session.fs.writeFileSync('/large', content)
    const copy = Buffer.from(content)
    content.fill(1)
    expect((await session.fs.promises.readFile('/large')).equals(copy)).toBe(true)
  })
})

test('an import copies large bytes before its promise settles, and refuses bytes that are transferred', async () => {
  await using imports = await openEngine()
  const { sourceId } = await imports.sources.create({ displayName: 'upload', uploadedSnapshot: {} })
  const { sourceId: other } = await imports.sources.create({ displayName: 'git', uploadedGitBundle: {} })
  const starts: [name: string, start: (content: Uint8Array) => Promise<unknown>][] = [
    [
      'uploadedSnapshot.content',
      (content) => imports.sources.startImport(sourceId, { uploadedSnapshot: { content } }),
    ],
    [
      'uploadedGitBundle.content',
      (content) => imports.sources.startImport(other, { uploadedGitBundle: { content } }),
    ],
    ['content', (content) => imports.sessions.importBundle(content)],
  ]
  for (const [field, start] of starts) {
    const content = largeContent()
    const started = Promise.allSettled([start(content)])
    structuredClone(content, { transfer: [content.buffer] })
    const [result] = await started
    expect(result).toMatchObject({
      reason: {
        reason: 'INVALID_ARGUMENT',
        message: `${field}: was transferred or resized before the call ended`,
      },
    })
  }
  const tar = await buffer((await imports.sessions.create({ files: { '/a': largeContent() } })).exportTar())
  const turns = turnsOf(() => imports.sources.startImport(sourceId, { uploadedSnapshot: { content: tar } }))
  expect(await turns).toBeGreaterThanOrEqual(blocks)
})
