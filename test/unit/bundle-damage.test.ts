// oxlint-disable vitest/expect-expect -- `refuse` does.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { EngineError, limits, memoryStorage, openEngine, type Engine, type Storage } from '../../src/index.js'
import type { EventBody } from '../../src/engine/records/event.js'
import { chainStart, expectedLink } from '../../src/engine/session/history/chain.js'
import { endsPage } from '../../src/engine/tree/page.js'
import { randomWords } from '../../src/testing.js'
import {
  addressOf,
  bytesOf,
  hashOf,
  putTogether,
  readFile,
  takeApart,
  writeFile,
  type BundleParts,
} from '../support/bundle-file.js'
import { isLong, runs, seed, size, stepOf } from '../support/seed.js'

const refused = (reason: string): unknown => expect.objectContaining({ name: 'EngineError', reason })
const mebibyte = 2 ** 20

/** The number of a storage seeds its random damage, so that each gets different damage. */
const stores: readonly (readonly [string, () => Storage, number])[] = [
  ...(isLong ? ([['memory', () => memoryStorage(), 0]] as const) : []),
  ...(isLong ? ([['durable memory', () => memoryStorage({ durable: true }), 1]] as const) : []),
  ['durable memory without synchronous reads', () => memoryStorage({ durable: true, syncReads: false }), 2],
]

let bundle: Buffer
let manifestHash: string
let original: Engine

beforeAll(async () => {
  original = await openEngine()
  const session = await original.sessions.create({ files: { '/d/a': 'a', '/d/b': 'b', '/c': 'c' } })
  await session.checkpoint({ checkpointLabel: 'one' })
  await session.files.link({ srcPath: '/c', dstPath: '/d/link' })
  await session.files.setXattr({ path: '/c', name: 'user.a', value: 'x' })
  const segments = [{ data: { offset: 5, content: 'x' } }, { data: { offset: 2 * mebibyte, content: 'y' } }]
  await session.files.patchSegments({ mutations: [{ path: '/sparse', segments }] })
  await session.checkpoint({ checkpointLabel: 'two' })
  bundle = await bytesOf(session.exportBundle())
  manifestHash = (await session.manifest()).manifestHash
})

afterAll(() => original.close())

/** Changes the text of a tree, and updates the addresses that refer to it. */
function rewrite(parts: BundleParts, change: (tree: string) => string): BundleParts {
  const renamed = new Map<string, string>()
  const rename = (text: string): string =>
    text.replaceAll(/[0-9a-f]{40}(?![0-9a-f])/g, (old) => renamed.get(old) ?? old)
  const trees = parts.trees.map((tree) => {
    if (typeof tree !== 'string') return tree
    const changed = change(rename(tree))
    renamed.set(addressOf(tree), addressOf(changed))
    return changed
  })
  const renameAll = <T>(value: T): T => JSON.parse(rename(JSON.stringify(value))) as T
  const { texts, ...manifest } = parts.manifest
  return {
    manifest: { ...renameAll(manifest), texts },
    trees,
    texts: { ...parts.texts, checkpoints: renameAll(parts.texts.checkpoints) },
  }
}

function nameThatEndsPage(): string {
  let i = 0
  while (!endsPage(`${i}`)) i++
  return `${i}`
}

describe.each(stores)('on %s', (_name, makeStorage, number) => {
  let engine: Engine

  beforeEach(async () => {
    engine = await openEngine({ storage: makeStorage() })
  })

  afterEach(async () => {
    await engine.close()
  })

  async function refuse(content: Uint8Array, message = '', reason = 'INVALID_BUNDLE'): Promise<void> {
    const error: unknown = await engine.sessions.importBundle(content).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toEqual(refused(reason))
    expect((error as Error).message).toContain(message)
    expect((await engine.sessions.list()).sessions).toEqual([])
  }

  test(`rejects a file with a changed bit or a missing end (FORKSPACE_SEED=${seed})`, async () => {
    const random = randomWords(seed + number)
    for (let i = 0; i < runs(700); i++) {
      const changed = Buffer.from(bundle)
      const at = random() % bundle.length
      changed[at]! ^= 1 << (random() % 8)
      await refuse(changed)
      await refuse(bundle.subarray(0, at))
    }
    for (let at = size < 1 ? number : 0; at < 120; at += stepOf(stores.length))
      await refuse(bundle.subarray(0, at))
    for (const more of [1, 8, 100]) await refuse(Buffer.concat([bundle, Buffer.alloc(more)]))
    await refuse(Buffer.concat([bundle, bundle]))
    await engine.sessions.importBundle(bundle)
  })

  test(`rejects a missing or swapped block, unless the content is intact (FORKSPACE_SEED=${seed})`, async () => {
    const random = randomWords(seed + number)
    const { root, blocks } = await readFile(bundle)
    for (const [index, block] of blocks.entries()) {
      const without = blocks.filter((other) => other !== block)
      await refuse(writeFile({ root, blocks: without }))
      await refuse(writeFile({ root, blocks: blocks.toSpliced(index, 0, block) }))
    }
    for (let i = 0; i < runs(200); i++) {
      const swapped = [...blocks]
      const [a, b] = [random() % blocks.length, random() % blocks.length]
      swapped[a] = blocks[b]!
      swapped[b] = blocks[a]!
      expect(['refused', 'whole']).toContain(await outcomeOf(writeFile({ root, blocks: swapped })))
    }
  })

  async function outcomeOf(content: Uint8Array): Promise<unknown> {
    try {
      const copy = await engine.sessions.importBundle(content)
      const isWhole =
        (await copy.manifest()).manifestHash === manifestHash &&
        bundle.equals(await bytesOf(copy.exportBundle()))
      await copy.delete()
      return isWhole ? 'whole' : 'another session'
    } catch (error) {
      return error instanceof EngineError && error.reason === 'INVALID_BUNDLE' ? 'refused' : error
    }
  }

  test('rejects files that are not bundles', async () => {
    await refuse(new Uint8Array())
    await refuse(Buffer.from('PK\u0003\u0004'))
    await refuse(Buffer.alloc(10_000, 0xff))
    await refuse(Buffer.alloc(10_000))
    // A header or a block with an endless length.
    await refuse(Buffer.from('ffffffffffffff0f', 'hex'))
    const { root, blocks } = await readFile(bundle)
    const header = writeFile({ root, blocks: [] })
    for (const length of ['ffffffffffffff0f', '80808010', '01', '00', '05', '8080808080808080808001'])
      await refuse(Buffer.concat([header, Buffer.from(length, 'hex'), Buffer.alloc(5000, 1)]))
    await refuse(writeFile({ root: blocks[1]!.cid, blocks }))
    await refuse(writeFile({ root, blocks: [blocks[0]!] }))
  })

  test('imports a reassembled bundle and ignores unknown fields', async () => {
    const parts = await takeApart(bundle)
    const more = {
      ...parts,
      manifest: { ...parts.manifest, more: { deep: [1] }, baseline: { ...parts.manifest.baseline, more: 1 } },
    }
    const copy = await engine.sessions.importBundle(await putTogether(more))
    expect(bundle.equals(await bytesOf(copy.exportBundle()))).toBe(true)
  })

  test('accepts directories and block lists split at any point and restores the same trees', async () => {
    const session = await original.sessions.create()
    await session.files.batch(
      Array.from({ length: 1000 }, (_, i) => ({ write: { path: `/m/${i}`, content: `${i % 3}` } })),
    )
    const segments = Array.from({ length: 400 }, (_, i) => ({ data: { offset: i * 7919, content: `${i}` } }))
    await session.files.patchSegments({ mutations: [{ path: '/large', segments }] })
    const whole = await bytesOf(session.exportBundle())
    const parts = await takeApart(whole)
    const trees: (Uint8Array | string)[] = []
    const cut = new Map<string, string[]>()
    const random = randomWords(seed)
    const { manifest, texts } = rewrite(parts, (tree) => {
      const [kind, list] = JSON.parse(tree) as [string, unknown[]]
      let changed = tree
      if (kind === 'l') {
        changed = JSON.stringify([kind, (list as string[]).flatMap((address) => cut.get(address) ?? address)])
      } else if ((kind === 'p' || kind === 'b') && list.length > 1) {
        const addresses: string[] = []
        for (let from = 0; from < list.length;) {
          const to = from + 1 + (random() % list.length)
          const part = JSON.stringify([kind, list.slice(from, to)])
          addresses.push(addressOf(part))
          trees.push(part)
          from = to
        }
        cut.set(addressOf(tree), addresses)
        if (kind === 'b') changed = JSON.stringify(['l', addresses])
        else return tree
      }
      trees.push(changed)
      return changed
    })
    const contents = parts.trees.filter((tree) => typeof tree !== 'string')
    const other = await putTogether({ manifest, texts, trees: [...contents, ...trees] })
    expect(other.equals(whole)).toBe(false)
    const copy = await engine.sessions.importBundle(other)
    expect((await copy.manifest()).manifestHash).toBe((await session.manifest()).manifestHash)
    expect(whole.equals(await bytesOf(copy.exportBundle()))).toBe(true)
  })

  describe('rejects an invalid manifest:', () => {
    type Change = (parts: BundleParts) => unknown
    const changes: readonly (readonly [string, Change, string])[] = [
      ['another format', ({ manifest }) => (manifest['format'] = 'x'), 'not a bundle of a session'],
      ['a later version', ({ manifest }) => (manifest['version'] = 2), 'version'],
      ['no version', ({ manifest }) => delete manifest['version'], 'version'],
      ['tags that are not a list', ({ manifest }) => (manifest['tags'] = { a: 'b' }), 'list'],
      ['a tag that is not text', ({ manifest }) => (manifest['tags'] = [['a', 5]]), 'text'],
      [
        'another hash',
        ({ manifest }) => (manifest.state.manifestHash = hashOf('')),
        'does not match its manifest hash',
      ],
      [
        'another base',
        ({ manifest }) => (manifest.baseline.manifestHash = hashOf('')),
        'does not match its manifest hash',
      ],
      ['an invalid root', ({ manifest }) => (manifest.state.root = ['f']), 'no root'],
      ['no root', ({ manifest }) => delete (manifest.state as Partial<typeof manifest.state>).root, 'list'],
      ['a root of something else', ({ manifest }) => (manifest.state.root[6] = '0'.repeat(40)), 'missing'],
      ['another head', ({ manifest }) => (manifest['head'] = 'x'.repeat(43)), 'newest event'],
      ['no events', ({ texts }) => (texts.events.length = 0), 'no events'],
      [
        'events that are not linked',
        ({ texts }) => ((texts.events[1] as unknown[])[4] = 'x'.repeat(43)),
        'the event before it',
      ],
      [
        'another principal',
        ({ texts }) => ((texts.events[1] as unknown[])[3] = 'eve'),
        'the event before it',
      ],
      ['other details', ({ texts }) => ((texts.events[1] as unknown[])[2] = { deep: { a: 1 } }), 'form'],
      ['another type', ({ texts }) => ((texts.events[1] as unknown[])[1] = '<script>'), 'form'],
      ['a time without end', ({ texts }) => ((texts.events[1] as unknown[])[0] = 1e300), 'range'],
      ['a redo', ({ texts }) => ((texts.events[1] as unknown[])[5] = [['u', '/c']]), 'link'],
      [
        'a checkpoint without an event',
        ({ texts }) => ((texts.checkpoints[0] as unknown[])[1] = 100),
        'range',
      ],
      ['two checkpoints of one event', ({ texts }) => ((texts.checkpoints[1] as unknown[])[1] = 2), 'range'],
      [
        'two checkpoints with one name',
        ({ texts }) => ((texts.checkpoints[1] as unknown[])[2] = 'one'),
        'the same id or label',
      ],
      [
        'two checkpoints with one id',
        ({ texts: { checkpoints } }) => ((checkpoints[1] as unknown[])[0] = (checkpoints[0] as unknown[])[0]),
        'the same id or label',
      ],
      [
        'the wrong state of the newest checkpoint',
        ({ texts: { checkpoints } }) => {
          const [a, b] = checkpoints as unknown[][]
          b!.splice(4, 2, ...a!.slice(4))
        },
        'newest checkpoint',
      ],
      [
        'an invalid checkpoint id',
        ({ texts }) => ((texts.checkpoints[0] as unknown[])[0] = '../..'),
        'no id',
      ],
      [
        'two annotations with one id',
        ({ texts: { annotations, checkpoints } }) => {
          const [id] = checkpoints[0] as [string]
          const annotation = {
            id,
            filePath: '/c',
            lineNumber: 1,
            contentHash: `sha256:${hashOf('c')}`,
            comment: 'a note',
            reviewerId: 'ann',
            status: 'ANNOTATION_STATUS_OPEN',
            createdAt: '2026-01-01T00:00:00.000Z',
          }
          annotations.push(annotation, annotation)
        },
        'not in order',
      ],
      [
        'an event time that a corrected clock would wait for',
        async ({ manifest, texts }) => {
          let link: string = chainStart
          const events = texts.events as EventBody[]
          for (const [i, [at, type, details, principal, , redo]] of events.entries()) {
            const time = i === 1 ? events[0]![0] - limits.clockHoldMs : at
            const event = [time, type, details, principal, '', redo] as unknown as EventBody
            link = await expectedLink(event, link)
            texts.events[i] = event.with(4, link)
          }
          manifest['head'] = link
        },
        'not in order',
      ],
      ['annotations that are not objects', ({ texts }) => texts.annotations.push({ id: 5 }), 'no id'],
      ['approvals that are not objects', ({ texts }) => texts.approvals.push('x'), 'object'],
    ]

    test.each(changes)('%s', async (_case, change, message) => {
      const parts = await takeApart(bundle)
      await change(parts)
      await refuse(await putTogether(parts), message)
    })
  })

  describe('rejects an invalid tree:', () => {
    const at = { file: ['f', 1, 0o644, 0, 0, 0, 0, 0], dir: ['d', 1, 0o755, 0, 0, 0] } as const
    const content = 'content'
    const hash = hashOf(content)
    const block = (...extents: unknown[]): unknown => [[0, extents]]
    const file = (size: unknown, body: unknown, ...extra: unknown[]): unknown[] => [
      ...at.file.slice(0, 6),
      size,
      body,
      ...extra,
    ]
    const one = (node: unknown): unknown[] => [['a', node]]
    const pageEnd = nameThatEndsPage()
    /** Entries of the root, or lists, of which the last is the root's. */
    const trees: readonly (readonly [
      string,
      unknown[] | { lists: [string, unknown][]; extra?: object },
      string,
    ])[] = [
      ['no list', [5], 'list'],
      ['an entry of an unknown kind', one(['x']), 'kind'],
      ['an empty name', [['', at.file]], 'part'],
      ['the name of the directory', [['.', at.file]], 'part'],
      ['the name of its parent', [['..', at.file]], 'part'],
      ['a name with a slash', [['a/b', at.file]], 'slash'],
      ['a name with a NUL', [['a\0', at.file]], 'NUL'],
      ['half a character', [['\ud800', at.file]], 'surrogate'],
      ['a name that is too long', [['é'.repeat(128), at.file]], 'bytes'],
      ['a name that is not a string', [[5, at.file]], 'string'],
      [
        'a name twice',
        [
          ['a', at.file],
          ['a', at.file],
        ],
        'order',
      ],
      [
        'names out of order',
        [
          ['b', at.file],
          ['a', at.file],
        ],
        'order',
      ],
      [
        'names in UTF-16 order',
        [
          ['\u{1f600}', at.file],
          ['\uffff', at.file],
        ],
        'order',
      ],
      [
        'too many names in a page',
        Array.from({ length: 1025 }, (_, i) => [`a${String(i).padStart(4, '0')}`, at.file]),
        'split',
      ],
      ['a mode with more than permission bits', one(['f', 1, 0o100644, 0, 0, 0, 0, 0]), 'range'],
      ['a negative mode', one(['f', 1, -1, 0, 0, 0, 0, 0]), 'range'],
      ['an inode number of zero', one(['f', 0, 0o644, 0, 0, 0, 0, 0]), 'range'],
      ['a time that is not a number', one(['f', 1, 0o644, 'now', 0, 0, 0, 0]), 'number'],
      ['a symlink to nowhere', one(['l', 1, '', 0]), 'the target of a symlink'],
      ['a symlink with a NUL', one(['l', 1, 'a\0b', 0]), 'the target of a symlink'],
      ['a symlink that is too long', one(['l', 1, 'a'.repeat(4097), 0]), 'bytes'],
      ['a missing content', one(file(1, hashOf('secret'))), 'missing'],
      [
        'a missing content with a similar hash',
        one(file(content.length, `${hash.slice(0, 63)}${hash.endsWith('0') ? '1' : '0'}`)),
        'missing',
      ],
      ['a content of another size', one(file(content.length + 1, hash)), 'size'],
      ['a negative size', one(file(-1, 0)), 'range'],
      ['a size that is not a number', one(file('1', 0)), 'number'],
      ['a body that is not an object', one(file(1, null)), 'object'],
      ['a missing body', one(file(1, { b: '0'.repeat(40) })), 'missing'],
      ['data after the end', one(file(3, block([0, 4, hash, content.length, 0]))), 'past its size'],
      ['overlapping extents', one(file(100, block([0, 4, hash, 7, 0], [3, 1, hash, 7, 0]))), 'range'],
      ['a range beyond the end of its content', one(file(100, block([0, 4, hash, 7, 4]))), 'range'],
      [
        'an extent beyond the end of its block',
        one(file(2 * mebibyte, block([mebibyte - 1, 2, hash, 7, 0]))),
        'range',
      ],
      ['an extent of zero bytes', one(file(100, block([0, 0, hash, 7, 0]))), 'range'],
      ['a block without extents', one(file(100, block())), 'empty'],
      [
        'a block twice',
        one(
          file(100, [
            [0, [hash, 7]],
            [0, [hash, 7]],
          ]),
        ),
        'order',
      ],
      [
        'blocks out of order',
        one(
          file(3 * mebibyte, [
            [1, [hash, 7]],
            [0, [hash, 7]],
          ]),
        ),
        'order',
      ],
      ['a block beyond all sizes', one(file(100, [[2 ** 40, [hash, 7]]])), 'range'],
      ['a missing directory', one([...at.dir, '0'.repeat(40)]), 'missing'],
      ['an invalid address', one([...at.dir, '__proto__']), 'address'],
      ['missing attribute values', one(file(0, 0, { x: [['a', hashOf('z'), 1]] })), 'missing'],
      [
        'attributes out of order',
        one(
          file(0, 0, {
            x: [
              ['b', hash, 7],
              ['a', hash, 7],
            ],
          }),
        ),
        'order',
      ],
      [
        'an attribute twice',
        one(
          file(0, 0, {
            x: [
              ['a', hash, 7],
              ['a', hash, 7],
            ],
          }),
        ),
        'order',
      ],
      ['an attribute without a name', one(file(0, 0, { x: [['', hash, 7]] })), 'order'],
      ['a link without a table', one(['h', 5]), 'the hard links do not match'],
      ['a file with a link count outside a table', { lists: [['d', one(file(0, 0, { n: 2 }))]] }, 'missing'],
      ['an unknown kind of list', { lists: [['z', []]] }, 'kind'],
      ['an empty list', { lists: [['l', []]] }, 'empty'],
      ['a part instead of a directory', { lists: [['p', one(at.file)]] }, 'missing'],
      ['a list of blocks instead of a directory', { lists: [['b', [[0, [hash, 7]]]]] }, 'missing'],
      ['an empty part', { lists: [['p', []]] }, 'split'],
      [
        'a page that continues after its end',
        [
          [pageEnd, at.file],
          [`${pageEnd}x`, at.file],
        ],
        'split',
      ],
    ]

    async function withRoot(lists: readonly string[], extra: object = {}): Promise<Buffer> {
      const parts = await takeApart(bundle)
      parts.trees.push(Buffer.from(content), ...lists)
      parts.manifest.state.root = [...at.dir, addressOf(lists.at(-1)!), extra]
      return putTogether(parts)
    }

    test.each(trees)('%s', async (_case, tree, message) => {
      const lists = 'lists' in tree ? tree.lists : [['d', tree]]
      await refuse(await withRoot(lists.map((list) => JSON.stringify(list))), message)
    })

    test('a tree that is too deep', async () => {
      const lists = [JSON.stringify(['d', []])]
      for (let depth = 0; depth <= limits.pathDepth; depth++)
        lists.push(JSON.stringify(['d', one([...at.dir, addressOf(lists.at(-1)!)])]))
      await refuse(await withRoot(lists), 'deep')
    })

    test.each([
      ['wrong link counts', [['a', ['h', 5]]], [['5', file(0, 0, { n: 2 }, 5)]], 'another number of names'],
      [
        'a link that is not in the table',
        [['a', ['h', 6]]],
        [['5', file(0, 0, { n: 1 }, 5)]],
        'another number of names',
      ],
      [
        'a file without a name in the table',
        [],
        [['5', file(0, 0, { n: 1 }, 5)]],
        'the hard links do not match',
      ],
      ['an unsorted table', [['a', ['h', 5]]], [['6', file(0, 0, { n: 1 }, 5)]], 'order'],
      [
        'a directory in a table',
        [['a', ['h', 5]]],
        [['5', ['d', 5, 0, 0, 0, 0, addressOf('["d",[]]')]]],
        'not a file',
      ],
      ['a file without a link count in a table', [['a', ['h', 5]]], [['5', file(0, 0, {}, 5)]], 'not a file'],
      [
        'a file with the same number as one in the table',
        [
          ['a', ['h', 5]],
          ['b', file(0, 0, {}, 5)],
        ],
        [['5', file(0, 0, { n: 1 }, 5)]],
        'the same number',
      ],
    ] as [string, unknown[], unknown[], string][])('%s', async (_case, entries, table, message) => {
      // The inode number of these files follows their other fields.
      const numbered = (list: unknown[]): unknown[] =>
        list.map((entry) => {
          const [name, node] = entry as [string, unknown[]]
          return [name, node.length === 10 ? [node[0], node[9], ...node.slice(2, 9)] : node]
        })
      const lists = [
        '["d",[]]',
        JSON.stringify(['d', numbered(table)]),
        JSON.stringify(['d', numbered(entries)]),
      ]
      await refuse(await withRoot(lists, { t: addressOf(lists[1]!) }), message)
    })

    test('a file over the size limit', async () => {
      const small = await openEngine({ storage: makeStorage(), maxFileBytes: 10 })
      await expect(small.sessions.importBundle(bundle)).rejects.toEqual(refused('FILE_TOO_LARGE'))
      await small.close()
    })

    test('missing contents that another session has', async () => {
      const secret = 'content that another tenant wrote'
      const other = await engine.as({ tenant: 'other' }).sessions.create({ files: { '/a': secret } })
      await refuse(
        await withRoot([JSON.stringify(['d', one(file(secret.length, hashOf(secret)))])]),
        'missing',
      )
      const parts = await takeApart(await bytesOf(other.exportBundle()))
      const trees = parts.trees.filter(
        (tree) => typeof tree !== 'string' && Buffer.from(tree).toString() !== secret,
      )
      await refuse(await putTogether({ ...parts, trees }), 'missing')
    })
  })
})
