import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { compileSource } from '../support/compile-source.js'
import { failure } from '../support/git-harness.js'
import { hostilePacks } from '../support/hostile-packs.js'
import { chunksOf, randomNumbers, readAll } from '../support/pack-oracle.js'
import { idDelta, idOf, makeDelta, plainEntry, rawPack, withTrailer } from '../support/raw-pack.js'
import { isLong, runs, seed } from '../support/seed.js'

const MiB = 2 ** 20

/** The memory that reading may use, above that of the process at its start. */
const memoryBound = 256 * MiB

interface Outcome {
  readonly expected: string | undefined
  readonly reason?: string
  /** The peak memory of the process up to the end of this pack, above its memory at the start. */
  readonly most: number
}

/** Results by the name of the pack, from one process that read them in turn. */
let outcomes: Record<string, Outcome>
beforeAll(async () => {
  const root = mkdtempSync(join(tmpdir(), 'forkspace-hostile-'))
  try {
    const compiled = await compileSource()
    const expected = Object.entries(hostilePacks).map(([name, make]) => {
      const { pack, reason } = make('sha1')
      mkdirSync(join(root, name))
      writeFileSync(join(root, name, 'pack'), pack)
      return [name, reason] as const
    })
    const script = child(compiled.url('adapters/git/pack/pack-reader.js'))
    const parameters = [
      '--expose-gc',
      '--input-type=module',
      '-e',
      script,
      root,
      ...Object.keys(hostilePacks),
    ]
    const run = await promisify(execFile)(process.execPath, parameters)
    const read = JSON.parse(run.stdout) as Record<string, Omit<Outcome, 'expected'>>
    outcomes = Object.fromEntries(
      expected.map(([name, reason]) => [name, { ...read[name]!, expected: reason }]),
    )
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}, 300_000)

/** Reads packs in a separate process, which stores large blobs in files. */
const child = (reader: string): string => `
  import fs from 'node:fs'
  import { readPack } from ${JSON.stringify(reader)}
  const [root, ...names] = process.argv.slice(1)
  let most = 0
  const before = process.memoryUsage.rss()
  const look = () => (most = Math.max(most, process.memoryUsage.rss() - before))
  setInterval(look, 2).unref()
  const outcomes = {}
  for (const name of names) {
    globalThis.gc()
    most = 0
    const path = (oid) => root + '/' + name + '/' + oid
    const large = new Set()
    const reason = await readPack(fs.createReadStream(path('pack')), {
      format: 'sha1',
      signal: new AbortController().signal,
      onObject: look,
      async onBlob(chunks, oid) {
        const file = fs.openSync(path('part'), 'w')
        for await (const chunk of chunks) fs.writeSync(file, chunk)
        fs.closeSync(file)
        fs.renameSync(path('part'), path(oid()))
        large.add(oid())
      },
      async getBase(oid) {
        return large.has(oid) ? { oid, type: 'blob', body: fs.readFileSync(path(oid)) } : undefined
      },
    }).then(() => undefined, (error) => error.reason)
    outcomes[name] = { reason, most }
    fs.rmSync(root + '/' + name, { recursive: true })
  }
  console.log(JSON.stringify(outcomes))
`

describe.each(Object.keys(hostilePacks))('%s', (name) => {
  const make = hostilePacks[name]!

  test('is rejected or read with little memory', () => {
    const outcome = outcomes[name]!
    expect(outcome.reason).toBe(outcome.expected)
    expect(outcome.most).toBeLessThan(memoryBound)
  })

  test.runIf(isLong)('is rejected or read with SHA-256 ids', { timeout: 60_000 }, async () => {
    const { pack, reason, want } = make('sha256')
    const large = new Map<string, number>()
    let wanted = false
    const read = readAll(chunksOf(pack), 'sha256', {
      onObject: ({ oid }) => void (wanted ||= oid === want),
      async onBlob(chunks, oid) {
        let size = 0
        for await (const chunk of chunks) size += chunk.length
        large.set(oid(), size)
      },
      getBase(oid) {
        const size = large.get(oid)
        return Promise.resolve(
          size === undefined ? undefined : { oid, type: 'blob', body: Buffer.alloc(size, 'x') },
        )
      },
    })
    const outcome = await read.then(
      () => undefined,
      async () => (await failure(read)).reason,
    )
    expect(outcome).toBe(reason)
    expect(wanted || reason !== undefined).toBe(true)
  })
})

test(`reads or rejects a pack with random damage and a correct trailer (FORKSPACE_SEED=${seed})`, async () => {
  const random = randomNumbers(seed)
  const text = Buffer.alloc(300, 'some text ')
  const delta = makeDelta(300, 310, [[0, 200], Buffer.from('0123456789'), [200, 100]])
  const entries = [
    plainEntry('blob', text),
    idDelta(idOf('blob', text), delta, { deflated: storedForm(delta) }),
    plainEntry('tree', text, { deflated: storedForm(text) }),
  ]
  const sound = rawPack(entries).subarray(0, -20)
  const seen = new Set<string>()
  for (let round = 0; round < runs(5000); round++) {
    const bytes = Buffer.from(sound)
    for (let flips = 1 + Math.floor(random() * 3); flips > 0; flips--) {
      const bit = Math.floor(random() * bytes.length * 8)
      bytes[bit >> 3]! ^= 1 << (bit & 7)
    }
    const read = readAll(chunksOf(withTrailer(bytes), random))
    seen.add(
      await read.then(
        () => 'read',
        async () => (await failure(read)).reason,
      ),
    )
  }
  expect([...seen].filter((outcome) => !['read', 'GIT_CORRUPT', 'GIT_TOO_LARGE'].includes(outcome))).toEqual(
    [],
  )
  expect(seen.has('GIT_CORRUPT')).toBe(true)
})

/** Stored without compression, so that only the trailing checksum detects damage. */
function storedForm(body: Buffer): Buffer {
  const header = Buffer.from([0x78, 0x01, 1, 0, 0, 0, 0])
  header.writeUInt16LE(body.length, 3)
  header.writeUInt16LE(body.length ^ 0xffff, 5)
  let a = 1
  let b = 0
  for (const byte of body) {
    a = (a + byte) % 65_521
    b = (b + a) % 65_521
  }
  const checksum = Buffer.alloc(4)
  checksum.writeUInt16BE(b)
  checksum.writeUInt16BE(a, 2)
  return Buffer.concat([header, body, checksum])
}
