import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { levelStorage } from '../../../src/adapters/level/index.js'
import { openEngine } from '../../../src/index.js'
import { bundleSource, type CompiledSource } from '../../support/compile-source.js'
import { isLong } from '../../support/seed.js'
import { isNewerCall } from '../../support/newer-node.js'

let source: CompiledSource
let directory: string

beforeAll(async () => {
  source = await bundleSource()
  directory = await mkdtemp(join(tmpdir(), 'processes-'))
})

afterAll(async () => {
  await rm(directory, { recursive: true })
})

describe('errors thrown by callbacks and listeners', () => {
  /** Every kind of callback; the thrown error identifies it. */
  const callbacks = `
    const thrower = (name) => () => { throw new Error(name) }
    fs.writeFileSync(at('/file'), 'content')
    fs.mkdirSync(at('/dir'))
    const fd = fs.openSync(at('/file'), 'r+')
    const dir = fs.opendirSync(at('/'))
    fs.stat(at('/file'), thrower('stat'))
    fs.stat(at('/none'), thrower('stat, failed'))
    fs.exists(at('/file'), thrower('exists'))
    fs.readFile(at('/file'), thrower('readFile'))
    fs.writeFile(at('/new'), 'new', thrower('writeFile'))
    fs.mkdir(at('/dir'), thrower('mkdir, failed'))
    fs.cp(at('/file'), at('/copy'), thrower('cp'))
    fs.open(at('/file'), thrower('open'))
    fs.read(fd, Buffer.alloc(1), 0, 1, 0, thrower('read'))
    fs.write(fd, 'x', 0, thrower('write'))
    fs.fsync(fd, thrower('fsync'))
    fs.realpath.native(at('/file'), thrower('realpath'))
    fs.opendir(at('/'), thrower('opendir'))
    dir.read(thrower('dir.read'))
    fs.createReadStream(at('/file')).on('data', thrower('data'))
    fs.createReadStream(at('/file')).on('open', thrower('open event')).on('error', () => {})
    fs.createReadStream(at('/none')).on('error', thrower('error event'))
    fs.createReadStream(at('/file')).close(thrower('read close'))
    fs.createWriteStream(at('/stream')).write('x', thrower('stream write'))
    fs.createWriteStream(at('/stream2')).end('x', thrower('stream end'))
    fs.createWriteStream(at('/stream3')).close(thrower('write close'))
    fs.createReadStream(at('/none'))
  `

  async function run(setUp: string): Promise<unknown[]> {
    const script = join(directory, `${createHash('sha256').update(setUp).digest('hex')}.mjs`)
    await writeFile(
      script,
      `${setUp}
      const seen = []
      process.on('uncaughtException', ({ message, code }, origin) => seen.push([origin, code ?? message]))
      process.on('unhandledRejection', (error) => seen.push(['unhandledRejection', String(error)]))
      process.on('exit', () => console.log(JSON.stringify(seen)))
      ${callbacks}`,
    )
    const { stdout } = await promisify(execFile)(process.execPath, [script])
    return (JSON.parse(stdout) as unknown[]).map((one) => JSON.stringify(one)).toSorted()
  }

  test.skipIf(isNewerCall('callbacks that throw'))(
    'are uncaught exceptions, like on disk, and stop nothing',
    async () => {
      const inSession = await run(`
      import { openEngine } from '${source.url('index.js')}'
      const engine = await openEngine()
      const { fs } = await engine.sessions.create()
      const at = (path) => path`)
      const onDisk = await run(`
      import * as fs from 'node:fs'
      import { tmpdir } from 'node:os'
      const directory = fs.mkdtempSync(tmpdir() + '/callbacks-')
      process.on('exit', () => fs.rmSync(directory, { recursive: true }))
      const at = (path) => directory + path`)
      expect(inSession).toEqual(onDisk)
      expect(inSession.length).toBe(callbacks.match(/thrower\('/g)!.length + 1)
    },
  )

  test('end the process if they are not caught, also from watchers', async () => {
    const script = join(directory, 'throws.mjs')
    await writeFile(
      script,
      `import { openEngine } from '${source.url('index.js')}'
      const engine = await openEngine()
      const { fs } = await engine.sessions.create()
      process.on('unhandledRejection', () => console.log('rejection'))
      fs.watch('/', () => { throw new RangeError('of a listener') })
      fs.writeFileSync('/x', '')
      setTimeout(() => console.log('still here'), 5000)`,
    )
    await expect(promisify(execFile)(process.execPath, [script])).rejects.toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('RangeError: of a listener') as string,
    })
  })
})

/** Whether bytes have this length and equal one byte; compared without a second buffer of that length. */
function isFilled(bytes: Buffer, length: number, byte: number): boolean {
  return bytes.length === length && bytes[0] === byte && bytes.subarray(1).equals(bytes.subarray(0, -1))
}

describe.each(['full', 'relaxed'] as const)(
  'synchronous changes and kill -9, durability: %s',
  (durability) => {
    const large = 10 * 2 ** 20
    /** Prints its session and kills itself. After every ten unflushed changes it waits for `turns` turns. */
    const writer = (data: string, flushed: number, unflushed: number, turns: number): string => `
    import { setImmediate as turn } from 'node:timers/promises'
    import { writeSync } from 'node:fs'
    import { openEngine } from '${source.url('index.js')}'
    import { levelStorage } from '${source.url('adapters/level/index.js')}'
    const engine = await openEngine({
      storage: levelStorage(${JSON.stringify(data)}, { durability: '${durability}' }),
    })
    const session = await engine.sessions.create()
    const { fs } = session
    const write = (i) => {
      if (i % 7 === 3) fs.writeFileSync('/large' + i, Buffer.alloc(${large}, i))
      else if (i % 7 === 5) fs.renameSync('/' + (i - 1), '/moved' + (i - 1))
      else fs.writeFileSync('/' + i, 'content ' + i)
      fs.appendFileSync('/log', i + '\\n')
    }
    for (let i = 0; i < ${flushed}; i++) write(i)
    if (${flushed} > 0) await session.flush()
    for (let i = ${flushed}; i < ${flushed + unflushed}; i++) {
      write(i)
      if (i % 10 === 0) for (let n = 0; n < ${turns}; n++) await turn()
    }
    writeSync(1, session.id)
    process.kill(process.pid, 'SIGKILL')
  `

    const more = [
      [25, 30, 5],
      [0, 20, 0],
      [10, 0, 0],
      [0, 100, 1],
    ] as const
    test.each([
      durability === 'full' ? ([30, 60, 10] as const) : ([20, 20, 0] as const),
      ...(isLong ? more : []),
    ])('%i flushed, %i unflushed, %i turns', async (flushed, unflushed, turns) => {
      const data = join(directory, `data-${durability}-${flushed}-${unflushed}`)
      const script = `${data}.mjs`
      await writeFile(script, writer(data, flushed, unflushed, turns))
      const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] })
      let id = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => (id += text))
      expect(await once(child, 'close')).toEqual([null, 'SIGKILL'])

      const engine = await openEngine({ storage: levelStorage(data, { durability }) })
      const { fs } = await engine.sessions.open(id)
      const log = fs.existsSync('/log') ? fs.readFileSync('/log', 'utf8').split('\n').slice(0, -1) : []
      expect(log).toEqual(Array.from(log, (_, i) => String(i)))
      expect(log.length).toBeGreaterThanOrEqual(flushed)
      const expected = new Map<string, string>()
      const write = (i: number): void => {
        if (i % 7 === 3) expected.set(`large${i}`, String(i % 256))
        else if (i % 7 === 5) {
          expected.set(`moved${i - 1}`, expected.get(`${i - 1}`)!)
          expected.delete(`${i - 1}`)
        } else expected.set(String(i), `content ${i}`)
      }
      for (const i of log.keys()) write(i)
      const names = new Set(fs.readdirSync('/').filter((name) => name !== 'log'))
      // The change after the last one in the log may be stored too.
      if (names.size !== expected.size || [...expected.keys()].some((name) => !names.has(name)))
        write(log.length)
      expect([...names].toSorted()).toEqual([...expected.keys()].toSorted())
      for (const [name, content] of expected) {
        const bytes = fs.readFileSync(`/${name}`)
        const isWhole = name.startsWith('large')
          ? isFilled(bytes, large, Number(content))
          : bytes.equals(Buffer.from(content))
        expect(isWhole).toBe(true)
      }
      await engine.close()
    })
  },
)
