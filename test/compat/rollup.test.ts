import { rollup, type RollupError, type RollupFsModule } from 'rollup'
import { expect, test } from 'vitest'
import { inBoth, writeTree, type Place } from './places.js'

const project = {
  'src/main.js': `
    import { greet } from './greet.js'
    import answer, { double } from './math/index'
    import { linked } from './link.js'
    export default greet('world') + double(answer) + linked
    export const lazy = () => import('./lazy.js')`,
  'src/greet.js': "import { mark } from './mark.mjs'\nexport const greet = (who) => `hello ${who}${mark}`",
  'src/mark.mjs': "export const mark = '!'\nexport const unused = 'shaken off'",
  'src/math/index.js': 'export { double } from "./double.js"\nexport default 21',
  'src/math/double.js': 'export const double = (n) => n * 2',
  'src/lazy.js': "export const value = 'later'",
  'common/linked.js': "export const linked = '?'",
  'src/link.js': '-> ../common/linked.js',
}

interface Bundled {
  readonly chunks: Record<string, string>
  readonly watched: string[]
  readonly result: unknown
}

async function bundle(place: Place): Promise<Bundled> {
  await writeTree(place, project)
  const { root } = place
  const fs = place.fs.promises as unknown as RollupFsModule
  const built = await rollup({ input: `${root}/src/main.js`, fs })
  await built.write({ dir: `${root}/dist`, format: 'es', chunkFileNames: '[name].js', sourcemap: true })
  await built.close()
  const chunks: Record<string, string> = {}
  for (const name of (await place.fs.promises.readdir(`${root}/dist`)).sort()) {
    chunks[name] = await place.fs.promises.readFile(`${root}/dist/${name}`, 'utf8')
  }
  const watched = built.watchFiles.map((path) => path.replace(root, '')).sort()
  return { chunks, watched, result: await run(chunks['main.js']!) }
}

async function run(code: string): Promise<unknown> {
  const url = `data:text/javascript;base64,${Buffer.from(code).toString('base64')}`
  const module = (await import(/* @vite-ignore */ url)) as { default: unknown }
  return module.default
}

test('rollup bundles a project in a session like one on the host', async () => {
  const { host, session } = await inBoth(bundle)
  expect(session).toEqual(host)
  expect(session.result).toBe('hello world!42?')
  expect(Object.keys(session.chunks)).toEqual(['lazy.js', 'lazy.js.map', 'main.js', 'main.js.map'])
  expect(session.chunks['main.js']).not.toContain('shaken off')
  expect(session.watched).toContain('/common/linked.js')
})

test('rollup reports a missing file in a session', async () => {
  const { host, session } = await inBoth(async (place) => {
    await writeTree(place, { 'main.js': "import './none.js'" })
    const fs = place.fs.promises as unknown as RollupFsModule
    const failed = rollup({ input: `${place.root}/main.js`, fs })
    const { code, exporter } = await failed.then(
      () => ({}) as RollupError,
      (error: RollupError) => error,
    )
    return { code, exporter }
  })
  expect(session).toEqual(host)
  expect(session).toEqual({ code: 'UNRESOLVED_IMPORT', exporter: './none.js' })
})
