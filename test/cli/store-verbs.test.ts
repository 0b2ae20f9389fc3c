import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sha256 } from '../../src/engine/base/hash.js'
import { runCommand } from '../support/command.js'
import { outputHere, runHere } from '../support/command-here.js'
import { entriesOf, filesOf, fillStore, flip, type FilledStore } from '../support/store-files.js'

describe('verbs on the files of a store', { timeout: 120_000 }, () => {
  let root: string
  let store: string
  let ids: FilledStore

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'cli-stores-'))
    store = join(root, 'store')
    ids = await fillStore(store)
  })

  afterAll(() => rm(root, { recursive: true, force: true }))

  test('exit with 2 if there is no store, or no valid target', async () => {
    for (const args of [
      ['check', join(root, 'missing')],
      ['check', root],
      ['check'],
      ['check', store, '--no-such'],
      ['repair', root, join(root, 'new')],
      ['repair', store, store],
      ['backup', root, join(root, 'new')],
      ['backup', store, root],
    ]) {
      const { code, stdout, stderr } = await runHere(args)
      expect([args, code, stdout]).toEqual([args, 2, ''])
      expect(stderr).toMatch(/^forkspace: .+\n$/)
    }
    const { code, stderr } = await runHere(['check', root, '--json'])
    expect(code).toBe(2)
    expect(JSON.parse(stderr)).toMatchObject({ error: { reason: 'STORE_FORMAT' } })
  })

  test('find nothing in an intact store, copy it, and report a key that is not copied', async () => {
    expect(await outputHere(['check', store])).toMatch(
      /^intact: 3 sessions, \d+ events, \d+ nodes, \d+ blobs$/,
    )
    expect(await outputHere(['check', '--read-data', store])).toContain('of contents read')
    await writeFile(join(store, 'master.key'), 'key')
    const { code, stderr } = await runHere(['backup', store, 'copy'], { cwd: root })
    await rm(join(store, 'master.key'))
    expect(code).toBe(0)
    expect(stderr).toContain('master.key was not copied')
    const copy = join(root, 'copy')
    expect(Object.keys(await filesOf(copy))).not.toContain('master.key')
    expect(JSON.parse(await outputHere(['check', copy, '--json']))).toMatchObject({ found: 0, sessions: 3 })
    const { bytes } = JSON.parse(await outputHere(['backup', copy, join(root, 'other'), '--json'])) as {
      bytes: number
    }
    expect(bytes).toBeGreaterThan(100_000)
    const sessions = await outputHere(['session', 'ls', '--store', join(root, 'other')])
    for (const id of Object.values(ids)) expect(sessions).toContain(id as string)
  })

  test('report each finding on its own line, and repair the rest', async () => {
    const entries = await entriesOf(store)
    const hash = sha256('only here')
    const entry = entries.find(({ key }) => key === `b${Buffer.from(hash, 'hex').toString('latin1')}`)!
    await flip(entry.path, entry.offset + entry.length - 1)
    const before = await filesOf(store)
    const check = await runCommand(['check', store])
    expect(check.code).toBe(1)
    const lines = check.stdout.trimEnd().split('\n')
    expect(lines[0]).toMatch(
      /^damaged file segments\/\d{8}\.seg: byte \d+: blob sha256:[0-9a-f]{64} is damaged$/,
    )
    expect(lines[1]).toBe(
      `missing blob sha256:${hash}  path /only.txt  session ${ids.second}: is not in the store`,
    )
    expect(lines.at(-1)).toMatch(/^\d findings: 3 sessions/)
    const target = join(root, 'repaired')
    const repair = await runHere(['repair', store, target])
    expect(repair.code).toBe(1)
    expect(repair.stdout).toContain(`dropped session ${ids.second}  path /only.txt  session ${ids.second}: `)
    expect(repair.stdout.trimEnd().split('\n').at(-1)).toContain('3 sessions (1 rebuilt)')
    expect(await outputHere(['check', '--read-data', target])).toMatch(/^intact/)
    const json = await runHere(['repair', store, join(root, 'again'), '--json'])
    expect(JSON.parse(json.stdout)).toMatchObject({ remaining: [], sessions: 3, rebuiltSessions: 1 })
    expect(await filesOf(store)).toEqual(before)
    const { code, stderr } = await runHere(['backup', store, join(root, 'bad')])
    expect([code, stderr]).toEqual([2, expect.stringContaining('DATA_LOSS')])
    expect(await outputHere(['cat', `${ids.second}:/second/0`, '--store', target])).not.toBe('')
    expect((await readFile(join(target, 'forkspace.json'), 'utf8')).length).toBeGreaterThan(0)
  })
})
