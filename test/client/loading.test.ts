/** The modules that the client loads, and its independence from Node. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { compileSource, type CompiledSource } from '../support/compile-source.js'
import { openRemote, type Remote } from '../support/remote.js'

let compiled: CompiledSource
let remote: Remote
beforeAll(async () => {
  compiled = await compileSource()
  remote = await openRemote()
})
afterAll(() => remote.close())

/** Runs code in a separate process; `globalThis.loaded` lists the URLs of the modules. */
async function run(code: string): Promise<unknown> {
  const { directory } = compiled
  const hooks = `
    let port
    export function initialize(data) { port = data }
    export function resolve(specifier, context, next) {
      if (specifier.startsWith('node:')) port.postMessage(specifier)
      return next(specifier, context)
    }
    export function load(url, context, next) { port.postMessage(url); return next(url, context) }`
  await writeFile(join(directory, 'hooks.mjs'), hooks)
  await writeFile(join(directory, 'entry.mjs'), code)
  const register = `import { register } from 'node:module'
    globalThis.loaded = []
    const { port1, port2 } = new MessageChannel()
    port1.on('message', (url) => globalThis.loaded.push(url)).unref()
    register(${JSON.stringify(pathToFileURL(join(directory, 'hooks.mjs')).href)}, { data: port2, transferList: [port2] })`
  const args = [
    '--import',
    `data:text/javascript,${encodeURIComponent(register)}`,
    join(directory, 'entry.mjs'),
  ]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: directory, maxBuffer: 2 ** 26 })
  return JSON.parse(stdout)
}

const entry = (): string => JSON.stringify(compiled.url('adapters/client/index.js'))

test('loads no engine, no Node builtins, and no package but zod', async () => {
  const loaded = (await run(`
    import ${entry()}
    setTimeout(() => console.log(JSON.stringify(globalThis.loaded)), 50)`)) as string[]
  const local = loaded.flatMap((url) => /\/compiled\/src\/((?:engine|adapters)\/.*)$/.exec(url)?.[1] ?? [])
  expect(local).toContain('adapters/client/index.js')
  const own =
    /^(adapters\/client\/|engine\/client-contract\.js|engine\/operations\/|engine\/base\/(errors|abort|attempt|fault|limits|nearest|present|shape|cooperative)\.js|engine\/services\/secrets\/secret\.js|engine\/fs\/)/
  expect(local.filter((name) => !own.test(name))).toEqual([])
  expect(loaded.filter((url) => url.startsWith('node:'))).toEqual([])
  const packages = loaded.flatMap((url) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [])
  expect([...new Set(packages)]).toEqual(['zod'])
})

test('works without Buffer', async () => {
  const program = `
    const { log } = console
    // Node's own fetch needs Buffer, so it is restored after the client has looked for it.
    const { Buffer } = globalThis
    globalThis.Buffer = undefined
    const { connect } = await import(${entry()})
    globalThis.Buffer = Buffer
    const engine = connect({ baseUrl: ${JSON.stringify(remote.server.url)}, token: 'ann-token' })
    const content = Uint8Array.from({ length: 70_000 }, (_, i) => i * 7)
    const session = await engine.sessions.create({ files: { '/a': content } })
    const back = await session.files.read({ path: '/a' })
    const { promises: fs } = session.fs
    await fs.mkdir('/d/é', { recursive: true })
    await fs.writeFile('/d/b', 'text ✓')
    const subscription = session.bus.subscribe({ replayLimit: 1 })
    await session.bus.publish({ topic: 't', payload: new Uint8Array([255, 0, 128]) })
    const { value } = await subscription.next()
    await subscription.return()
    log(JSON.stringify({
      same: back.length === content.length && back.every((byte, i) => byte === content[i]),
      names: await fs.readdir('/d'),
      text: await fs.readFile('/d/b', 'utf8'),
      bytes: [...(await fs.readFile('/d/b'))].slice(0, 4),
      code: await fs.stat('/none').catch(({ code }) => code),
      payload: [...value.payload],
      encoding: await fs.readFile('/d/b', 'latin1').catch(({ code }) => code),
    }))`
  expect(await run(program)).toEqual({
    same: true,
    names: ['b', 'é'],
    text: 'text ✓',
    bytes: [116, 101, 120, 116],
    code: 'ENOENT',
    payload: [255, 0, 128],
    encoding: 'ERR_INVALID_ARG_VALUE',
  })
})
