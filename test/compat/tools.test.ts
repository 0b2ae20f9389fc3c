import nodeFs from 'node:fs'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import gracefulFs from 'graceful-fs'
import { Project, type FileSystemHost } from 'ts-morph'
import { FormData, Response } from 'undici'
import { Union } from 'unionfs'
import { expect, test } from 'vitest'
import webpack from 'webpack'
import { inBoth, sessionPlace, writeTree, type Fs, type Place } from './places.js'
import { isLong } from '../support/seed.js'

test('graceful-fs works on a session as on the host', async () => {
  const { host, session } = await inBoth(async ({ fs, root }) => {
    // The module of the host must not be changed.
    const graceful = gracefulFs.gracefulify(fs === nodeFs ? { ...nodeFs } : fs)
    const target = graceful.createWriteStream(`${root}/file`)
    target.end('streamed')
    await once(target, 'close')
    const source = graceful.createReadStream(`${root}/file`, { start: 2 })
    const streamed = await text(source)
    const readers = Array.from(
      { length: 50 },
      () =>
        new Promise<string>((resolve, reject) => {
          graceful.readFile(`${root}/file`, 'utf8', (error, content) => {
            if (error === null) resolve(content)
            else reject(error)
          })
        }),
    )
    const contents = new Set(await Promise.all(readers))
    graceful.renameSync(`${root}/file`, `${root}/renamed`)
    return {
      streamed,
      contents: [...contents],
      kinds: [source instanceof graceful.ReadStream, source instanceof fs.ReadStream],
      names: graceful.readdirSync(root),
    }
  })
  expect(session).toEqual(host)
  expect(session.streamed).toBe('reamed')
})

test('unionfs accepts a session without a cast, and layers it over the host', async () => {
  const place = await sessionPlace()
  place.fs.writeFileSync(`${place.root}/inside`, 'of the session')
  const union = new Union().use(nodeFs).use(place.fs)
  expect(union.readFileSync(`${place.root}/inside`, 'utf8')).toBe('of the session')
  expect(union.readFileSync(import.meta.filename, 'utf8')).toContain('layers it over the host')
  expect(await union.promises.readFile(`${place.root}/inside`, 'utf8')).toBe('of the session')
  await place.remove()
})

test('undici sends a file of a session in a form', async () => {
  const { host, session } = await inBoth(async ({ fs, root }) => {
    fs.writeFileSync(`${root}/upload.txt`, 'uploaded')
    const form = new FormData()
    form.set('file', await fs.openAsBlob(`${root}/upload.txt`, { type: 'text/plain' }), 'upload.txt')
    const received = await new Response(form).formData()
    const file = received.get('file') as File
    return [file.name, file.type, await file.text()]
  })
  expect(session).toEqual(host)
  expect(session).toEqual(['upload.txt', 'text/plain', 'uploaded'])
})

/** The file system functions that ts-morph needs, based on node:fs. */
function hostOf(fs: Fs): FileSystemHost {
  const isA = (path: string, kind: 'isFile' | 'isDirectory'): boolean =>
    fs.statSync(path, { throwIfNoEntry: false })?.[kind]() ?? false
  return {
    isCaseSensitive: () => true,
    getCurrentDirectory: () => '/',
    readFileSync: (path, encoding = 'utf8') => fs.readFileSync(path, encoding as 'utf8'),
    readFile: (path, encoding = 'utf8') => fs.promises.readFile(path, encoding as 'utf8'),
    writeFileSync: (path, content) => fs.writeFileSync(path, content),
    writeFile: (path, content) => fs.promises.writeFile(path, content),
    deleteSync: (path) => fs.rmSync(path, { recursive: true }),
    delete: (path) => fs.promises.rm(path, { recursive: true }),
    mkdirSync: (path) => void fs.mkdirSync(path, { recursive: true }),
    mkdir: async (path) => void (await fs.promises.mkdir(path, { recursive: true })),
    moveSync: (from, to) => fs.renameSync(from, to),
    move: (from, to) => fs.promises.rename(from, to),
    copySync: (from, to) => fs.cpSync(from, to, { recursive: true }),
    copy: (from, to) => fs.promises.cp(from, to, { recursive: true }),
    fileExistsSync: (path) => isA(path, 'isFile'),
    fileExists: async (path) => isA(path, 'isFile'),
    directoryExistsSync: (path) => isA(path, 'isDirectory'),
    directoryExists: async (path) => isA(path, 'isDirectory'),
    realpathSync: (path) => fs.realpathSync(path),
    globSync: () => [],
    glob: async () => [],
    readDirSync: (path) =>
      fs.readdirSync(path, { withFileTypes: true }).map((entry) => ({
        name: `${path}/${entry.name}`,
        isFile: entry.isFile(),
        isDirectory: entry.isDirectory(),
        isSymlink: entry.isSymbolicLink(),
      })),
  }
}

test.runIf(isLong)('ts-morph renames a symbol in a project of a session', async () => {
  const { host, session } = await inBoth(async (place: Place) => {
    const { fs, root } = place
    await writeTree(place, {
      'src/a.ts': 'export function before(): number {\n  return 1\n}\n',
      'src/b.ts': "import { before } from './a'\nexport const value = before()\n",
    })
    const project = new Project({ fileSystem: hostOf(fs), skipAddingFilesFromTsConfig: true })
    project.addSourceFileAtPath(`${root}/src/b.ts`)
    project.addSourceFileAtPath(`${root}/src/a.ts`).getFunctionOrThrow('before').rename('after')
    await project.save()
    return fs.readdirSync(`${root}/src`).map((name) => fs.readFileSync(`${root}/src/${name}`, 'utf8'))
  })
  expect(session).toEqual(host)
  expect(session[1]).toBe("import { after } from './a'\nexport const value = after()\n")
})

test('webpack builds from a session into it', async () => {
  const { host, session } = await inBoth(async (place) => {
    const { fs, root } = place
    await writeTree(place, {
      'main.js': "module.exports = require('./lib').double(21)",
      'lib/index.js': 'exports.double = (n) => n * 2',
      'lib/linked.js': '-> index.js',
    })
    const compiler = webpack({
      context: root,
      entry: `${root}/main.js`,
      mode: 'none',
      target: 'node',
      output: { path: `${root}/dist`, filename: 'out.js', library: { type: 'commonjs2' } },
    })
    compiler.inputFileSystem = fs as unknown as NonNullable<typeof compiler.inputFileSystem>
    compiler.outputFileSystem = fs as unknown as NonNullable<typeof compiler.outputFileSystem>
    const errors = await new Promise((resolve, reject) => {
      compiler.run((error, stats) => {
        if (error === null) resolve(stats!.compilation.errors.map(({ message }) => message))
        else reject(error)
      })
    })
    await new Promise((resolve) => compiler.close(resolve))
    const module = { exports: undefined as unknown }
    // oxlint-disable-next-line typescript/no-implied-eval -- runs the output of webpack.
    new Function('module', fs.readFileSync(`${root}/dist/out.js`, 'utf8'))(module)
    return [errors, module.exports]
  })
  expect(session).toEqual(host)
  expect(session).toEqual([[], 42])
})
