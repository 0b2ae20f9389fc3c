import { parsePage, programOf } from './doc-pages.js'
import type { DocExample } from './doc-examples.js'

/** The code before and after an example. The code before it may declare names. */
interface Surroundings {
  readonly before?: string
  readonly after?: string
}

/** Why an example is neither compiled nor run, by its file or by its file and name. */
const notRun: Readonly<Record<string, string>> = {
  'adapters/git/index.ts': 'internal: the package does not export it',
  'adapters/client/remote-service.ts': 'internal: the package does not export it',
  'engine/facade/call.ts': 'internal: the package does not export it',
  'engine/tree/pins.ts': 'internal: the package does not export it',
  'adapters/postgres/index.ts': 'needs a server of PostgreSQL, which other tests run',
  'adapters/node-vfs/index.ts': 'needs node:vfs of Node 26, which other tests run',
}

const write = (path: string): Surroundings => ({
  before: `await session.files.write({ path: '${path}', content: 'one' })`,
})
const gitSource: Surroundings = {
  before: `const { sourceId } = await engine.sources.create({
  displayName: 'app',
  gitRemote: { remoteUrl: 'https://example.org/app.git' },
})
const job = await engine.sources.startImport(sourceId, { git: { gitRef: 'main' } })
await engine.sources.waitForJob(job)`,
}
const gitSession: Surroundings = {
  before: `${gitSource.before}
const session = await engine.sessions.create({ sourceRef: { sourceId } })
await session.files.write({ path: '/src/b.ts', content: place })`,
}
const handler: Surroundings = {
  before: `const handler = createHttpHandler(engine, { authenticate: staticTokens({}) })`,
}
const labelled: Surroundings = { before: `await session.checkpoint({ checkpointLabel: 'before' })` }
const secret: Surroundings = {
  before: `await session.secrets.put({ secretName: 'API_TOKEN', secretValue: 'a' })`,
}
/** For a loop that ends with its session. */
const deletedSoon: Surroundings = {
  before: `const deleted = new Promise((resolve) => setTimeout(resolve, 20)).then(() => session.delete())`,
  after: 'await deleted',
}
const publishedSoon: Surroundings = {
  before: `const published = new Promise((resolve) => setTimeout(resolve, 20)).then(() =>
  session.bus.publish({ topic: 'tests:done', payload: '' }),
)`,
  after: 'await published',
}
const store: Surroundings = {
  before: 'await (await openEngine({ storage: levelStorage(`${directory}/data`) })).close()',
}

/** The surroundings of examples, by file and name. */
const surroundings: Readonly<Record<string, Surroundings>> = {
  'adapters/client/bus.ts subscribe': deletedSoon,
  'adapters/client/files.ts append': write('/log.txt'),
  'adapters/client/files.ts read': write('/a.txt'),
  'adapters/client/files.ts readStream': write('/large.bin'),
  'adapters/client/locks.ts setBlocking': write('/db'),
  'adapters/client/session.ts commit': gitSession,
  'adapters/client/sources.ts abortJob': gitSource,
  'adapters/client/sources.ts delete': gitSource,
  'adapters/client/sources.ts get': gitSource,
  'adapters/client/sources.ts getJob': gitSource,
  'adapters/client/sources.ts listJobs': gitSource,
  'adapters/client/sources.ts promoteSession': gitSource,
  'adapters/client/sources.ts refresh': gitSource,
  'adapters/client/sources.ts startImport': gitSource,
  'adapters/client/sources.ts waitForJob': gitSource,
  'adapters/client/sources.ts watchJob': gitSource,
  'adapters/http/server/node-adapter.ts toNodeHandler': handler,
  'adapters/http/server/server.ts close': {
    before: `${handler.before}\nconst server = await serve(handler)`,
  },
  'adapters/http/server/server.ts serve': { ...handler, after: 'await server.close()' },
  'adapters/level/tools/backup-store.ts backupStore': store,
  'adapters/level/tools/check-store.ts checkStore': store,
  'adapters/level/tools/repair-store.ts repairStore': store,
  'engine/facade/bus.ts subscribe': deletedSoon,
  'engine/facade/cache.ts metadata': {
    before: `await session.cache.put({ key: 'build/main', value: 'output' })`,
  },
  'engine/facade/events.ts follow': deletedSoon,
  'engine/facade/file-locks.ts forceUnlock': {
    before: `await session.fileLocks.lock({ path: '/src/a.ts', timeoutSeconds: 60 })`,
  },
  'engine/facade/files.ts append': write('/log.txt'),
  'engine/facade/files.ts batch': write('/a'),
  'engine/facade/files.ts getCasExtents': write('/disk.img'),
  'engine/facade/files.ts readStream': write('/large.bin'),
  'engine/facade/files.ts readSymlink': {
    before: `await session.files.createSymlink({ linkPath: '/latest', target: '/src' })`,
  },
  'engine/facade/files.ts removeDirectory': write('/src/lib/b.ts'),
  'engine/facade/files.ts getXattr': {
    before: `await session.files.setXattr({ path: '/src/a.ts', name: 'user.origin', value: 'agent-1' })`,
  },
  'engine/facade/files.ts removeXattr': {
    before: `await session.files.setXattr({ path: '/src/a.ts', name: 'user.origin', value: 'agent-1' })`,
  },
  'engine/facade/files.ts setMode': write('/bin/run.sh'),
  'engine/facade/files.ts unlink': write('/src/b.ts'),
  'engine/facade/files.ts write': { before: `await session.files.delete({ path: '/src/a.ts' })` },
  'engine/facade/health.ts report': {
    before: `await writeFile('junit.xml', '<testsuite><testcase name="a"/></testsuite>')`,
  },
  'engine/facade/engine.ts importBundle': {
    before: `await writeFile('session.car', session.exportBundle())`,
  },
  'engine/facade/posix-locks.ts funlock': write('/db'),
  'engine/facade/posix-locks.ts flock': write('/db'),
  'engine/facade/posix-locks.ts get': write('/db'),
  'engine/facade/posix-locks.ts set': write('/db'),
  'engine/facade/posix-locks.ts setBlocking': write('/db'),
  'engine/facade/secrets.ts delete': secret,
  'engine/facade/secrets.ts get': secret,
  'engine/facade/session-api.ts commit': gitSession,
  'engine/facade/session-api.ts deleteCheckpoint': labelled,
  'engine/facade/session-api.ts restore': labelled,
  'engine/facade/session-api.ts subscribe': deletedSoon,
  'engine/facade/session.ts commit': gitSession,
  'engine/facade/sources.ts abortJob': gitSource,
  'engine/facade/sources.ts delete': gitSource,
  'engine/facade/sources.ts exportTar': gitSource,
  'engine/facade/sources.ts get': gitSource,
  'engine/facade/sources.ts getJob': gitSource,
  'engine/facade/sources.ts listJobs': gitSource,
  'engine/facade/sources.ts promoteSession': gitSource,
  'engine/facade/sources.ts refresh': gitSource,
  'engine/facade/sources.ts startImport': {
    before: `const { sourceId } = await engine.sources.create({ displayName: 'app', uploadedSnapshot: {} })`,
  },
  'engine/facade/sources.ts waitForJob': gitSource,
  'engine/facade/sources.ts watchJob': gitSource,
  'engine/fs/types.ts openAsBlobSync': write('/a.txt'),
  'engine/services/bus/bus-subscription.ts [Symbol.asyncIterator]': publishedSoon,
  'engine/services/bus/bus-subscription.ts next': publishedSoon,
  'engine/services/secrets/secret.ts reveal': secret,
}

/** The name of the declaration of an example, such as `write` or `[Symbol.dispose]`. */
export function nameOf({ declared }: DocExample): string {
  const words = /^(?:(?:export|async|function|class|interface|type|static|const|get) +|\*)*(\[[\w.]+\]|\w+)/
  return words.exec(declared)?.[1] ?? declared
}

/** Why an example is not run; undefined for one that is. */
export function whyNotRun(example: DocExample): string | undefined {
  return notRun[example.file] ?? notRun[`${example.file} ${nameOf(example)}`]
}

/** A name that an entry point exports. */
export interface Exported {
  readonly name: string
  readonly entry: string
  readonly isType: boolean
}

/** The names that an entry point exports, from its source. The first entry point of a name counts. */
export function exportedNames(entries: Readonly<Record<string, string>>): Exported[] {
  const names = new Map<string, Exported>()
  const add = (name: string, entry: string, isType: boolean): void => {
    if (!names.has(name)) names.set(name, { name, entry, isType })
  }
  for (const [entry, text] of Object.entries(entries)) {
    for (const [, type, list] of text.matchAll(/^export (type )?\{([^}]*)\}/gm))
      for (const [, own, name] of list!.matchAll(/(type )?(\w+)/g))
        add(name!, entry, type !== undefined || own !== undefined)
    for (const [, kind, name] of text.matchAll(
      /^export (?:async )?(function|class|const|interface|type) (\w+)/gm,
    ))
      add(name!, entry, kind === 'interface' || kind === 'type')
  }
  return [...names.values()]
}

/** The names that examples may use without declaring them. */
const worldNames = ['engine', 'session', 'fork', 'directory', 'show', 'signal', 'token']

/**
 * An example as a program. Names that entry points export need no import: `exported` lists them. The
 * URL of a server is replaced by that of the world, a fixed port for a free one, and a directory for one of the world.
 */
export function exampleProgram(
  example: DocExample,
  exported: readonly Exported[],
  worldOf: (name: string) => string,
): string {
  const { before = '', after = '' } = surroundings[`${example.file} ${nameOf(example)}`] ?? {}
  const code = example.code
    .replaceAll(/'http:\/\/127\.0\.0\.1:\d+'/g, 'serverUrl')
    .replaceAll('8080', '0')
    .replaceAll('`/backups/', '`${directory}/backup-')
    .replaceAll(/'(?:\/work|\.)\/(build|data|data-repaired)'/g, '`${directory}/$1`')
  const used = new Map<string, string[]>()
  for (const { name, entry, isType } of exported) {
    if (!new RegExp(`(?<![\\w.'])${name}\\b(?!')`).test(`${before}\n${code}\n${after}`)) continue
    if (new RegExp(`^import .*\\b${name}\\b`, 'm').test(code)) continue
    used.set(entry, [...(used.get(entry) ?? []), isType ? `type ${name}` : name])
  }
  const imports = [...used].map(([entry, names]) => `import { ${names.join(', ')} } from '${entry}'`)
  const blocks = [[...imports, before].join('\n'), code, after].filter((block) => block !== '')
  const text = blocks.map((block) => `\`\`\`ts\n${block}\n\`\`\`\n`).join('\n')
  const isRemote = example.file.startsWith('adapters/client/')
  const world = worldOf(isRemote ? 'examples-remote-world' : 'examples-world')
  const names = isRemote ? [...worldNames, 'serverUrl'] : worldNames
  return programOf(parsePage(example.file, text), world, names)!
}

/** Surroundings and reasons that belong to no example any more. */
export function unusedKeys(examples: readonly DocExample[]): string[] {
  const known = new Set(examples.flatMap((example) => [example.file, `${example.file} ${nameOf(example)}`]))
  return [...Object.keys(notRun), ...Object.keys(surroundings)].filter((key) => !known.has(key))
}
