/** Stored tree nodes: valid forms, and forms that count as damage. */
import { describe, expect, test } from 'vitest'
import { UnloadedBody } from '../../src/engine/cas/body.js'
import { keys, prefixEnd, type Store } from '../../src/engine/ports.js'
import { decodeNode, encodeNode } from '../../src/engine/tree/codec.js'
import type { EncodedNode } from '../../src/engine/tree/encoded.js'
import { StoreLoader } from '../../src/engine/tree/loader.js'
import { NodeCache } from '../../src/engine/tree/node-cache.js'
import { Dir, FileNode, noAttributes, Page } from '../../src/engine/tree/node.js'
import { storedReferences, type StoredKind } from '../../src/engine/tree/references.js'
import { memoryStorage, openEngine } from '../../src/index.js'

const address = 'a'.repeat(40)
const hash = 'b'.repeat(64)
const attributes = [1, 0o644, 2, 3, 4] as const
const file = (...rest: readonly unknown[]): unknown => ['f', ...attributes, ...rest]
const dir = (...rest: readonly unknown[]): unknown => ['d', ...attributes, ...rest]
const entry = (node: unknown): unknown => [['name', node]]
const extent = [0, 1, hash, 1, 0]

/** The nodes of a page, each with copies in which one part is damaged. */
const nodes: readonly { right: unknown; wrong: readonly unknown[] }[] = [
  { right: ['h', 1], wrong: [['h'], ['h', '1'], ['k', 1], [], null, 1, 'h', { 0: 'h', 1: 1 }] },
  {
    right: ['l', 1, 'target', 2],
    wrong: [
      ['l', '1', 'target', 2],
      ['l', 1, 2, 2],
      ['l', 1, 'target'],
    ],
  },
  {
    right: dir(address, 0, 1),
    wrong: [
      dir(address, 0),
      dir(1, 0, 1),
      dir(address, 1, 1),
      dir(address, 0, '1'),
      ['d', 1, 2, 3, 4, null, address, 0, 1],
    ],
  },
  {
    right: dir(address, hash, 1, { l: 1, t: dir(address, 0, 0), x: [['user.a', hash, 1]] }),
    wrong: [
      { t: ['d'] },
      { t: file(0, 0) },
      { x: 1 },
      { x: [['user.a', hash]] },
      { x: [[1, hash, 1]] },
      1,
      [],
    ].map((extra) => dir(address, hash, 1, extra)),
  },
  { right: file(0, 0), wrong: [file(), file('0', 0), file(0), file(0, 1), file(0, null), file(0, {})] },
  { right: file(1, hash, 0, 0), wrong: [file(1, hash, 1, 0), file(1, hash, 0, {}), file(1, hash, null)] },
  {
    right: file(1, hash, hash, hash, { n: 2 }),
    wrong: [file(1, hash, 0, 0, { n: '2' }), file(1, hash, 0, 0, 2)],
  },
  { right: file(1, { address }), wrong: [file(1, { address: 1 })] },
  { right: file(1, [[0, [0]]]), wrong: [file(1, [[0, [1]]]), file(1, [[0]]), file(1, [0])] },
]

const blocks: { right: readonly unknown[]; wrong: readonly unknown[] } = {
  right: [[], [[0, [0, [hash, 1], { e: [extent] }, { e: [], i: hash }]]]],
  wrong: [
    {},
    null,
    [0],
    [['0', []]],
    [[0, {}]],
    [[0, [null]]],
    [[0, [[hash]]]],
    [[0, [[1, 1]]]],
    [[0, [{}]]],
    [[0, [{ e: [[0, 1, hash, 1]] }]]],
    [[0, [{ e: [['0', 1, hash, 1, 0]] }]]],
    [[0, [{ e: [], i: 1 }]]],
  ],
}

const texts: Record<StoredKind, { right: readonly unknown[]; wrong: readonly unknown[] }> = {
  page: {
    right: [[], ...nodes.map(({ right }) => entry(right))],
    wrong: [{}, null, 1, 'text', [1], [[1, ['h', 1]]], ...nodes.flatMap(({ wrong }) => wrong.map(entry))],
  },
  directory: {
    right: [
      [0, []],
      [
        1,
        [
          ['last', address, 0],
          ['later', address, hash],
        ],
        0,
      ],
      ...nodes.map(({ right }) => [0, entry(right)]),
    ],
    wrong: [
      {},
      null,
      [],
      [2, []],
      [0],
      [1, {}],
      [1, [['last']], 0],
      [1, [['last', 1, 0]], 0],
      [1, [[1, address, 0]], 0],
      [1, [['last', address, 1]], 0],
      ...nodes.flatMap(({ wrong }) => wrong.map((node) => [0, entry(node)])),
    ],
  },
  blocks,
}

const damaged = expect.objectContaining({
  reason: 'DATA_LOSS',
  message: expect.stringContaining(`tree node ${address} is damaged`) as string,
  details: { address },
}) as Error

const references = { node: () => undefined, blob: () => undefined }

describe.each(Object.entries(texts) as [StoredKind, (typeof texts)[StoredKind]][])(
  'a %s',
  (kind, { right, wrong }) => {
    const rightTexts = right.map((value) => JSON.stringify(value))
    const wrongTexts = ['', 'no json', '[', ...wrong.map((value) => JSON.stringify(value))]

    test('is loaded with its references if it is valid', async () => {
      for (const json of rightTexts) {
        const { load, isLoaded } = await stored(kind, json)
        load()
        expect(isLoaded(), json).toBe(true)
        expect(() => storedReferences(kind, { address, json }, references), json).not.toThrow()
      }
    })

    test('fails with DATA_LOSS and stays unloaded if it is malformed', async () => {
      for (const json of wrongTexts) {
        const { load, isLoaded } = await stored(kind, json)
        expect(load, json).toThrow(damaged)
        expect(isLoaded(), json).toBe(false)
        expect(() => storedReferences(kind, { address, json }, references), json).toThrow(damaged)
      }
    })
  },
)

test.each([
  ['a hard link', ['h', 1]],
  ['a symlink', ['l', 1, 'target', 2]],
  ['a directory without a hash', dir(address, 0, 1)],
  [
    'a directory',
    dir(address, hash, 1, { x: [['user.a', hash, 1]], l: 1, t: ['d', 0, 0, 0, 0, 0, address, 0, 1] }),
  ],
  ['an empty file', file(0, 0)],
  ['a file with one blob', file(1, hash)],
  ['a file with blocks', file(1, [[0, [0, [hash, 1], { e: [extent], i: hash }]]])],
  ['a file whose content has a known hash', file(1, { address }, hash, 0)],
  ['a file whose blocks have a known hash', file(1, { address }, 0, hash)],
  ['a hard-linked file with an attribute', file(1, hash, 0, 0, { x: [['user.a', hash, 1]], n: 2 })],
])('stores %s again as it was loaded', (_, encoded) => {
  const put = (): never => expect.unreachable()
  expect(encodeNode(decodeNode(encoded as EncodedNode), put)).toEqual(encoded)
})

test('a malformed node fails a read and a collection with DATA_LOSS', async () => {
  const data = memoryStorage({ durable: true })
  const first = await openEngine({ storage: data })
  const { id } = await first.sessions.create({ files: { '/docs/a.txt': 'one' } })
  await first.close()
  let store!: Store
  const engine = await openEngine({ storage: { open: async () => (store = await data.open()) } })
  const all = await store.scan({ gte: 'n', lt: prefixEnd('n'), limit: 10 })
  const [key] = all.find(([, json]) => json.includes('a.txt'))!
  await store.commit({ put: [[key, '[0,[["a.txt",null]]]']] })
  const session = await engine.sessions.open(id)
  await expect(session.files.read({ path: '/docs/a.txt' })).rejects.toMatchObject({
    reason: 'DATA_LOSS',
    details: { address: key.slice(1) },
  })
  await expect(engine.collect()).rejects.toMatchObject({ reason: 'DATA_LOSS' })
  await engine.close()
})

/** A node with this text, loaded in the same way as in a tree. */
async function stored(
  kind: StoredKind,
  json: string,
): Promise<{ readonly load: () => unknown; readonly isLoaded: () => boolean }> {
  const store = await memoryStorage({ durable: true }).open()
  await store.commit({ put: [[keys.node(address), json]] })
  const loader = new StoreLoader(store, new NodeCache(2 ** 20))
  if (kind === 'blocks') {
    const body = new UnloadedBody(address)
    const node = new FileNode(noAttributes, 1, body)
    return { load: () => loader.loadBody(node), isLoaded: () => body.body !== null }
  }
  if (kind === 'page') {
    const page = new Page(undefined, null, [], 'last')
    page.address = address
    return { load: () => loader.loadPage(page), isLoaded: () => page.names !== null }
  }
  const node = new Dir(undefined, noAttributes, null)
  node.address = address
  return { load: () => loader.loadDir(node), isLoaded: () => node.pages !== null }
}
