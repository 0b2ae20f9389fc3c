import { contents, flatPaths, projectRoot } from '../../support/project-files.js'
import type { Capability, Files, LargeFile, Pending, Store, Workspace } from '../contender.js'
import {
  compare,
  createFilled,
  fileBytes,
  holds,
  makeDirectories,
  read as readBack,
  repeat,
  sampleFiles,
  type Act,
  type Scenario,
  type Stage,
  writeAll,
} from './scenario.js'

const listed = 1000
const appendBytes = 100
const patchBytes = 4096
const batchFiles = 100

type Change = (workspace: Workspace, path: string, content: Uint8Array) => Pending<unknown>

/**
 * One change of each file. A scenario for new files has a new workspace in every round. Others keep theirs, and write
 * deleted files again.
 */
function eachFile(
  name: string,
  title: string,
  needs: readonly Capability[],
  { exists, change, expected }: { exists: boolean; change: Change; expected: 'content' | 'nothing' },
): Scenario {
  return {
    name,
    title: () => title,
    needs,
    async start(stage) {
      const store = await stage.store()
      const { count } = stage.plan
      const before = sampleFiles(count)
      let files: Files = []
      let workspace: Workspace | undefined
      let done = 0
      return {
        async prepare(round) {
          files = sampleFiles(count, round + 2)
          if (exists) {
            if (workspace === undefined) workspace = await createFilled(store, before)
            else if (expected === 'nothing') await writeAll(workspace, before.slice(0, done))
          } else {
            await workspace?.dispose?.()
            workspace = await store.create()
            await makeDirectories(workspace, files)
          }
        },
        async run() {
          const to = workspace!
          done = await repeat(stage.plan, count, (number) => change(to, ...files[number]!))
          return done
        },
        async check() {
          const changed = files.slice(0, done)
          if (expected === 'nothing')
            return [
              ...(await checkRemoved(workspace!, changed)),
              ...(await compare(workspace!, before.slice(done))),
            ]
          const problems = await compare(workspace!, changed)
          return [...problems, ...(await (exists ? checkShorter(store) : checkBuffers(store)))]
        },
      }
    },
  }
}

const write = eachFile('write', 'write of 1 KiB to a new file', ['write', 'read'], {
  exists: false,
  change: (workspace, path, content) => workspace.write!(path, content),
  expected: 'content',
})

const overwrite = eachFile('overwrite', 'overwrite of 1 KiB', ['write', 'read'], {
  exists: true,
  change: (workspace, path, content) => workspace.write!(path, content),
  expected: 'content',
})

const remove = eachFile('delete', 'delete of one file', ['write', 'read', 'remove'], {
  exists: true,
  change: (workspace, path) => workspace.remove!(path),
  expected: 'nothing',
})

/** A contender must not notice changes of the caller's buffers after a call, nor of those that it returned. */
async function checkBuffers(store: Store): Promise<string[]> {
  const workspace = await store.create()
  const [[path, content]] = sampleFiles(1) as [Files[number]]
  const own = Buffer.from(content)
  await makeDirectories(workspace, [[path, content]])
  await workspace.write!(path, own)
  own.fill(0)
  const problems: string[] = []
  if (!(await holds(workspace, path, content))) problems.push("wrong: keeps the caller's buffer")
  await workspace.write!(path, Buffer.from(content))
  ;(await readBack(workspace, path))?.fill(0)
  if (!(await holds(workspace, path, content))) problems.push('wrong: returns its own buffer')
  await workspace.dispose?.()
  return problems
}

/** A shorter content replaces the whole file. */
async function checkShorter(store: Store): Promise<string[]> {
  const workspace = await createFilled(store, sampleFiles(1))
  const [[path]] = sampleFiles(1) as [Files[number]]
  const shorter = Buffer.alloc(8, 1)
  await workspace.write!(path, shorter)
  const right = await holds(workspace, path, shorter)
  await workspace.dispose?.()
  return right ? [] : ['wrong: an overwrite with less leaves the old end']
}

async function checkRemoved(workspace: Workspace, files: Files): Promise<string[]> {
  let left = 0
  for (const [path] of files) if ((await readBack(workspace, path)) !== undefined) left++
  return left === 0 ? [] : [`wrong: ${left} of ${files.length} deleted files are still there`]
}

/** One call for each file of a workspace that stays the same. */
function eachLook(
  name: string,
  title: string,
  needs: readonly Capability[],
  look: Change,
  check: (workspace: Workspace, files: Files) => Promise<string[]>,
): Scenario {
  return {
    name,
    title: () => title,
    needs: ['write', ...needs],
    async start(stage) {
      const files = sampleFiles(stage.plan.count)
      const workspace = await createFilled(await stage.store(), files)
      return {
        run: () => repeat(stage.plan, files.length, (number) => look(workspace, ...files[number]!)),
        check: () => check(workspace, files),
      }
    },
  }
}

const read = eachLook(
  'read',
  'read of 1 KiB',
  ['read'],
  (workspace, path) => workspace.read!(path),
  (workspace, files) => compare(workspace, files),
)

const stat = eachLook(
  'stat',
  'stat of one file',
  ['stat'],
  (workspace, path) => workspace.stat!(path),
  async (workspace, files) => {
    let wrong = 0
    for (const [path] of files) if ((await workspace.stat!(path)) !== fileBytes) wrong++
    return wrong === 0 ? [] : [`wrong: ${wrong} of ${files.length} sizes`]
  },
)

const list: Scenario = {
  name: 'list',
  title: () => `list of a directory of ${listed.toLocaleString('en')} files`,
  needs: ['write', 'list'],
  async start({ plan, store }) {
    const bodies = contents(listed, 16)
    const paths = flatPaths(listed)
    const workspace = await createFilled(
      await store(),
      paths.map((path, index) => [path, bodies[index]!]),
    )
    return {
      run: () => repeat(plan, Math.ceil(plan.count / 20), () => workspace.list!(projectRoot)),
      async check() {
        const names = new Set(await workspace.list!(projectRoot))
        const right = names.size === listed && paths.every((path) => names.has(path.split('/').at(-1)!))
        return right ? [] : [`wrong: ${names.size} names instead of ${listed}`]
      },
    }
  },
}

const walk: Scenario = {
  name: 'walk',
  title: ({ files }) => `walk of ${files.toLocaleString('en')} files`,
  needs: ['write', 'walk'],
  async start({ plan, store }) {
    const files = sampleFiles(plan.files)
    const workspace = await createFilled(await store(), files)
    return {
      run: () => repeat(plan, 3, () => workspace.walk!()),
      async check() {
        // Paths start at the root of the workspace, or of the whole file system.
        const inProject = (path: string): string => path.slice(path.indexOf(projectRoot.slice(1)))
        const found = new Set((await workspace.walk!()).map(inProject))
        const missing = files.filter(([path]) => !found.has(inProject(path))).length
        return missing === 0 ? [] : [`wrong: ${missing} of ${files.length} paths are missing`]
      },
    }
  },
}

const append: Scenario = {
  name: 'append',
  title: () => `append of ${appendBytes} B to one file`,
  needs: ['write', 'read', 'append'],
  async start({ plan, store }) {
    const path = `${projectRoot}/log`
    const first = Buffer.alloc(appendBytes)
    let parts: Buffer[] = []
    let workspace: Workspace | undefined
    let done = 0
    const opened = await store()
    return {
      async prepare(round) {
        await workspace?.dispose?.()
        parts = contents(plan.count, appendBytes, round + 2)
        workspace = await createFilled(opened, [[path, first]])
      },
      async run() {
        done = await repeat(plan, plan.count, (number) => workspace!.append!(path, parts[number]!))
        return done
      },
      check: () => compare(workspace!, [[path, Buffer.concat([first, ...parts.slice(0, done)])]]),
    }
  },
}

const patch: Scenario = {
  name: 'patch',
  title: ({ largeBytes }) => `patch of 4 KiB in a file of ${largeBytes / 2 ** 20} MiB`,
  needs: ['openLarge'],
  async start({ plan, store }) {
    const workspace = await (await store()).create()
    await workspace.mkdir?.(projectRoot)
    const file: LargeFile = await workspace.openLarge!(`${projectRoot}/large`, plan.largeBytes)
    const blocks = Math.floor(plan.largeBytes / patchBytes)
    // The stride is odd, so that it visits all blocks of a file with a size of a power of two.
    const offsetOf = (number: number): number => ((number * 7919) % blocks) * patchBytes
    const count = Math.min(Math.ceil(plan.count / 4), blocks)
    let parts: Buffer[] = []
    let done = 0
    return {
      async prepare(round) {
        parts = contents(count, patchBytes, round + 2)
      },
      async run() {
        done = await repeat(plan, count, (number) => file.patch(offsetOf(number), parts[number]!))
        return done
      },
      async check() {
        let wrong = 0
        for (let number = 0; number < done; number++) {
          const found = await file.read(offsetOf(number), patchBytes)
          if (Buffer.compare(found, parts[number]!) !== 0) wrong++
        }
        return wrong === 0 ? [] : [`wrong: ${wrong} of ${done} patches differ`]
      },
    }
  },
}

const batch: Scenario = {
  name: 'batch',
  title: () => `atomic batch of ${batchFiles} files of 1 KiB`,
  needs: ['batch', 'read'],
  start: startBatches,
}

async function startBatches({ plan, store }: Stage): Promise<Act> {
  const opened = await store()
  const count = Math.ceil(plan.count / 40)
  let batches: Files[] = []
  let workspace: Workspace | undefined
  let done = 0
  return {
    async prepare(round) {
      await workspace?.dispose?.()
      workspace = await opened.create()
      const files = sampleFiles(count * batchFiles, round + 2)
      await makeDirectories(workspace, files)
      batches = Array.from({ length: count }, (_, number) =>
        files.slice(number * batchFiles, (number + 1) * batchFiles),
      )
    },
    async run() {
      done = await repeat(plan, count, (number) => workspace!.batch!(batches[number]!))
      return done
    },
    check: () => compare(workspace!, batches.slice(0, done).flat()),
  }
}

export const fileScenarios: readonly Scenario[] = [
  write,
  overwrite,
  read,
  stat,
  list,
  walk,
  append,
  patch,
  batch,
  remove,
]
