import { indexPack } from 'isomorphic-git'
import fs from 'node:fs'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deflateSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { applyDelta } from '../../src/adapters/git/pack/delta.js'
import { PackBuilder } from '../../src/adapters/git/pack/build-pack.js'
import { emptyTreeId, objectId, zeroId } from '../../src/adapters/git/objects/object-id.js'
import { VerifiedSource } from '../../src/adapters/git/pack/opened-object.js'
import { readEntry, readPackHeader } from '../../src/adapters/git/pack/pack-entry.js'
import { formatPackIndex } from '../../src/adapters/git/pack/pack-index.js'
import { TimeSlice, type GitObject } from '../../src/engine/ports.js'
import { failure } from '../support/git-harness.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import {
  chunksOf,
  nativeObjects,
  randomNumbers,
  readAll,
  versions,
  type PackContent,
} from '../support/pack-oracle.js'
import {
  idDelta,
  idOf,
  makeDelta,
  offsetDelta,
  plainEntry,
  rawPack,
  type Format,
} from '../support/raw-pack.js'
import { isLong, seed } from '../support/seed.js'

const formats: readonly Format[] = ['sha1', 'sha256']
const MiB = 2 ** 20

let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'forkspace-packs-'))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A history of files that change little from commit to commit, with a tag. */
function history(name: string, format: Format): GitRepository {
  const repository = GitRepository.create(join(root, name), { format })
  const random = randomNumbers(seed)
  const files = Array.from({ length: 8 }, () => versions(random, 12, 60 + Math.floor(random() * 200)))
  for (let at = 0; at < 12; at++) {
    repository.commitFiles(
      files.map((file, index) => ['100644', `dir${index % 3}/file${index}`, file[at]!] as const),
    )
  }
  repository.git(['tag', '-a', 'v1', '-m', 'a tag', 'main'])
  return repository
}

/** A pack of the objects of these revisions, or of everything if there are none. */
function packOf(repository: GitRepository, options: readonly string[], revs = ''): Buffer {
  const all = revs === '' ? ['--all'] : []
  return repository.gitBytes(['pack-objects', '--revs', '--stdout', '-q', ...all, ...options], {
    input: revs,
  })
}

/** The ids of objects that are in only one of the two, or differ. */
function differences(content: PackContent, native: ReturnType<typeof nativeObjects>): string[] {
  const extra = [...content.objects.keys()].filter((oid) => !native.has(oid))
  const other = [...native].filter(([oid, { type, body }]) => {
    const object = content.objects.get(oid)
    return object?.type !== type || !body.equals(object.body)
  })
  return [...extra, ...other.map(([oid]) => oid)]
}

const formatsOfNative = isLong ? formats : formats.slice(0, 1)

describe.runIf(hasGit).each(formatsOfNative)(
  `a pack of native git, %s (FORKSPACE_SEED=${seed})`,
  (format) => {
    let repository: GitRepository
    let native: ReturnType<typeof nativeObjects>
    beforeAll(() => {
      repository = history(`history-${format}`, format)
      native = nativeObjects(repository)
    })

    test.each([
      ['without deltas', ['--window=0']],
      ['with deltas by id', []],
      ['with deltas by offset', ['--delta-base-offset']],
      ['with long chains', ['--delta-base-offset', '--depth=4095', '--window=100']],
      ['with chains of one', ['--depth=1']],
      ['not compressed', ['--compression=0', '--delta-base-offset']],
      ['with maximum compression', ['--compression=9']],
    ])('%s contains the same objects as git cat-file', async (_, options) => {
      const pack = packOf(repository, options)
      expect(differences(await readAll(chunksOf(pack, randomNumbers(seed)), format), native)).toEqual([])
      expect(differences(await readAll(chunksOf(pack, randomNumbers(seed), 40), format), native)).toEqual([])
    })

    test('that is thin gets its bases from elsewhere, and an error names a missing one', async () => {
      const thin = packOf(repository, ['--thin', '--delta-base-offset'], 'main\n^main~3\n')
      const { objects } = await readAll(chunksOf(packOf(repository, [], 'main~3\n')), format)
      let asked = 0
      const known = new Map(objects)
      const content = await readAll(chunksOf(thin), format, {
        onObject: (object) => void objects.set(object.oid, object),
        getBase(oid) {
          asked += known.has(oid) ? 1 : 0
          return Promise.resolve(objects.get(oid))
        },
      })
      expect(asked).toBeGreaterThan(0)
      const expected = new Map([...native].filter(([oid]) => objects.has(oid)))
      expect(differences({ ...content, objects }, expected)).toEqual([])
      expect(objects.has(repository.tip('refs/heads/main')!)).toBe(true)
      const error = await failure(readAll(chunksOf(thin), format))
      expect(error.reason).toBe('GIT_CORRUPT')
      expect(native.has(error.details['baseOid']!)).toBe(true)
    })

    test.runIf(isLong)('rereads bases that were evicted from memory', async () => {
      // Blobs that arrive in pieces, most of them deltas of the previous one.
      const large = GitRepository.create(join(root, `large-${format}`), { format })
      const random = randomNumbers(seed)
      const bytes = Buffer.alloc(5 * MiB)
      for (let at = 0; at < bytes.length; at += 4) bytes.writeUInt32LE(random() * 2 ** 32, at)
      const bodies = [0, 1, 2].map((version) => {
        bytes.write(`version ${version}`, version * 2 * MiB)
        return Buffer.from(bytes)
      })
      bodies.push(Buffer.alloc(5 * MiB, 'easy to compress '), bodies[0]!.subarray(0, 4 * MiB))
      bodies.push(bodies[0]!.subarray(0, 4 * MiB + 1), Buffer.alloc(0))
      large.stage(bodies.map((body, index) => ['100644', `f${index}`, body]))
      large.commit()
      for (const options of [['--delta-base-offset'], ['--window=0']]) {
        const pack = packOf(large, options)
        const content = await readAll(chunksOf(pack, random), format)
        expect(differences(content, nativeObjects(large))).toEqual([])
        const pieces = bodies
          .filter((body) => body.length > 4 * MiB)
          .map((body) => idOf('blob', body, format))
        expect([...content.large].sort()).toEqual(pieces.sort())
        expect(content.asked > 0).toBe(options[0] === '--delta-base-offset')
      }
    })

    test('has the ids that isomorphic-git finds', async () => {
      if (format === 'sha256') return
      const pack = packOf(repository, ['--delta-base-offset'])
      const gitdir = join(root, 'other')
      fs.mkdirSync(gitdir, { recursive: true })
      fs.writeFileSync(join(gitdir, 'p.pack'), pack)
      const { oids } = await indexPack({ fs, dir: gitdir, gitdir, filepath: 'p.pack' })
      const { objects } = await readAll(chunksOf(pack))
      expect([...objects.keys()].sort()).toEqual(oids.sort())
    })

    test('built here contains the same objects after git indexes it', async () => {
      const { objects } = await readAll(chunksOf(packOf(repository, [])), format)
      const builder = new PackBuilder(format)
      for (const object of [...objects.values(), ...objects.values()]) await builder.add(object)
      const pack = await builder.finish(new TimeSlice(performance, new AbortController().signal))
      const bytes = Buffer.concat(pack.parts)
      expect(differences(await readAll(chunksOf(bytes), format), native)).toEqual([])
      const path = join(root, `built-${format}.pack`)
      fs.writeFileSync(path, bytes)
      repository.git(['index-pack', '--strict', '-o', `${path}.idx`, path])
      const index = formatPackIndex(pack.objects, pack.checksum)
      expect(fs.readFileSync(`${path}.idx`).subarray(0, index.length).equals(index)).toBe(true)
    })

    test('fails wherever it is truncated', async () => {
      const pack = packOf(repository, ['--delta-base-offset'], 'main~10\n')
      const random = randomNumbers(seed)
      for (let cut = 0; cut < pack.length; cut += cut < 100 ? 1 : 1 + Math.floor(random() * 400)) {
        const error = await failure(readAll(chunksOf(pack.subarray(0, cut), random), format))
        expect([cut, error.reason]).toEqual([cut, 'GIT_CORRUPT'])
      }
    })

    test('fails for any flipped bit', async () => {
      const pack = packOf(repository, ['--delta-base-offset'], 'main~8\n')
      const random = randomNumbers(seed)
      for (let round = 0; round < 200; round++) {
        const bit = Math.floor(random() * pack.length * 8)
        const damaged = Buffer.from(pack)
        damaged[bit >> 3]! ^= 1 << (bit & 7)
        const error = await failure(readAll(chunksOf(damaged, random), format))
        expect([bit, error.reason]).toEqual([bit, expect.stringMatching(/^GIT_(CORRUPT|TOO_LARGE)$/)])
      }
    })
  },
)

describe('a pack', () => {
  const text = Buffer.from('a base of some length')
  const base = plainEntry('blob', text)
  const grown = Buffer.concat([text, Buffer.from('!')])
  const more = Buffer.concat([grown, Buffer.from('?')])
  const grow = makeDelta(text.length, grown.length, [[0, text.length], Buffer.from('!')])
  const growMore = makeDelta(grown.length, more.length, [[0, grown.length], Buffer.from('?')])

  test.each(formats)('with bases after their deltas is read, %s', async (format) => {
    const [baseId, grownId, moreId] = [text, grown, more].map((body) => idOf('blob', body, format))
    const first = idDelta(grownId!, growMore)
    const second = idDelta(baseId!, grow)
    const orders = [
      [first, second, base],
      [second, first, base],
      [second, offsetDelta(second.length, growMore), base],
      [first, base, second],
      // The same object more than once.
      [first, second, base, base, first, second],
    ]
    for (const order of orders) {
      const { objects } = await readAll(chunksOf(rawPack(order, format)), format)
      expect(new Set(objects.keys())).toEqual(new Set([baseId, grownId, moreId]))
    }
    const { details } = await failure(readAll(chunksOf(rawPack([second], format)), format))
    expect(details['baseOid']).toBe(baseId)
  })

  test('with unusual but valid compression is read', async () => {
    // Many empty blocks first: far more bytes than the object has.
    const empty = Buffer.from([0, 0, 0, 0xff, 0xff])
    const plain = deflateSync(text)
    const odd = Buffer.concat([
      plain.subarray(0, 2),
      ...Array.from({ length: 100_000 }, () => empty),
      plain.subarray(2),
    ])
    const entry = plainEntry('blob', text, { deflated: odd })
    const { objects } = await readAll(chunksOf(rawPack([entry, base])))
    expect([...objects.values()].map(({ body }) => Buffer.from(body).toString())).toEqual([text.toString()])
  })

  test('with a base offset inside an object is rejected', async () => {
    for (const distance of [base.length - 1, base.length + 1, base.length + 11, 2 ** 40, 0]) {
      const error = await failure(readAll(chunksOf(rawPack([base, offsetDelta(distance, grow)]))))
      expect([distance, error.reason]).toEqual([distance, 'GIT_CORRUPT'])
    }
  })

  test('without objects is read', async () => {
    expect((await readAll(chunksOf(rawPack([])))).objects.size).toBe(0)
  })

  test('rethrows an error of its stream and closes the stream', async () => {
    const pack = rawPack([base])
    const thrown = new Error('no more')
    let closed = 0
    const broken = async function* (end: number): AsyncGenerator<Uint8Array, void, undefined> {
      try {
        yield pack.subarray(0, end)
        if (end < pack.length) throw thrown
        yield pack
      } finally {
        closed++
      }
    }
    for (const end of [0, 5, 20, pack.length - 10]) await expect(readAll(broken(end))).rejects.toBe(thrown)
    expect((await failure(readAll(broken(pack.length)))).reason).toBe('GIT_CORRUPT')
    await expect.poll(() => closed).toBe(5)
  })

  test('rejects with the reason of an abort, also while it waits', async () => {
    const large = plainEntry('blob', Buffer.alloc(6 * MiB, 'x'))
    const pack = rawPack([base, large, base])
    for (const end of [0, 15, 60, large.length / 2, pack.length - 30]) {
      const control = new AbortController()
      const stuck = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
        yield pack.subarray(0, end)
        setTimeout(() => control.abort('enough'))
        await new Promise(() => {})
      }
      await expect(readAll(stuck(), 'sha1', { signal: control.signal })).rejects.toBe('enough')
    }
    const aborted = AbortSignal.abort('before')
    await expect(readAll(chunksOf(pack), 'sha1', { signal: aborted })).rejects.toBe('before')
  })

  test('rethrows an error of its receiver', async () => {
    const thrown = new Error('full')
    const large = plainEntry('blob', Buffer.alloc(6 * MiB, 'x'))
    const pack = rawPack([base, large])
    const onObject = (): never => {
      throw thrown
    }
    await expect(readAll(chunksOf(pack), 'sha1', { onObject })).rejects.toBe(thrown)
    const onBlob = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
      for await (const _ of chunks) throw thrown
    }
    await expect(readAll(chunksOf(pack), 'sha1', { onBlob })).rejects.toBe(thrown)
  })

  test('reports progress up to the end', async () => {
    const seen: number[][] = []
    const onProgress = (...now: number[]): void => void seen.push(now)
    await readAll(chunksOf(rawPack([base, base, base])), 'sha1', { onProgress })
    expect(seen.at(-1)).toEqual([3, 3])
  })

  test('delivers large trees whole', async () => {
    const body = Buffer.alloc(5 * MiB, 'x')
    const { objects, large } = await readAll(chunksOf(rawPack([plainEntry('tree', body)])))
    expect([...objects.keys()]).toEqual([idOf('tree', body)])
    expect(large.size).toBe(0)
  })
})

test.each<readonly [string, readonly number[], string]>([
  ['a size above 2^53', [0x9f, ...Array<number>(8).fill(0xff), 0x01], 'an invalid size'],
  ['a base farther away than 2^53', [0x60, ...Array<number>(8).fill(0xff), 0x01], 'a delta has no base'],
  ['a size that continues after its end', [0x9f, 0xff], 'it ends too early'],
  ['a distance that continues after its end', [0x60, 0xff], 'it ends too early'],
  ['an id that continues after its end', [0x70, ...Array<number>(19).fill(1)], 'it ends too early'],
  ['type 0', [0x00], 'an unknown type'],
  ['type 5', [0x50], 'an unknown type'],
])('rejects a pack entry with %s as GIT_CORRUPT', (_name, bytes, message) => {
  expect(() => readEntry(Buffer.from(bytes), 0, 'sha1')).toThrow(
    expect.objectContaining({ reason: 'GIT_CORRUPT', message: expect.stringContaining(message) as string }),
  )
})

test.each([0x80, 0x91, 0x90, 0xff])(
  'rejects a delta that ends within instruction %i as GIT_CORRUPT',
  (instruction) => {
    // The sizes of base and result, then an instruction without its operands.
    const delta = Buffer.from([5, 5, instruction])
    const apply = (): unknown =>
      applyDelta(delta, Buffer.from('bytes'), new TimeSlice(performance, new AbortController().signal))
    expect(apply).toThrow(expect.objectContaining({ reason: 'GIT_CORRUPT' }))
  },
)

test('accepts a pack entry that ends the buffer, and rejects another pack version', () => {
  const id = Buffer.alloc(20, 1)
  const header = Buffer.concat([Buffer.of(0x71), id])
  expect(readEntry(header, 0, 'sha1')).toMatchObject({ kind: 'id-delta', baseOid: id.toString('hex') })
  expect(readPackHeader(Buffer.from('PACK\0\0\0\x02\0\0\0\x05'))).toBe(5)
  for (const wrong of ['PACK\0\0\0\x03\0\0\0\x05', 'PACL\0\0\0\x02\0\0\0\x05', 'PACK\0\0\0\x02\0\0\0'])
    expect(() => readPackHeader(Buffer.from(wrong))).toThrow('version 2')
})

test('rejects a pack entry whose object has another id as GIT_CORRUPT', async () => {
  const body = Buffer.from('body')
  const source = new VerifiedSource('sha1', () => Promise.resolve({ type: 'blob', body }))
  const oid = objectId('blob', body, 'sha1')
  expect(await source.read(oid)).toEqual({ oid, type: 'blob', body })
  await expect(source.read('0'.repeat(40))).rejects.toMatchObject({ reason: 'GIT_CORRUPT' })
})

test.each(formats)('ids of %s', (format) => {
  for (const length of [0, 1, 1000, 16_370, 16_384, 100_000]) {
    const body = Buffer.alloc(length, 'x')
    const object: GitObject = { oid: idOf('blob', body, format), type: 'blob', body }
    expect(objectId('blob', object.body, format)).toBe(object.oid)
  }
  expect(emptyTreeId(format)).toBe(idOf('tree', Buffer.alloc(0), format))
  expect(zeroId(format)).toHaveLength(format === 'sha1' ? 40 : 64)
})
