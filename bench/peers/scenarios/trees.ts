import type { Files, Store, Workspace } from '../contender.js'
import {
  compare,
  createFilled,
  fileBytes,
  holds,
  repeat,
  sampleFiles,
  type Plan,
  type Scenario,
} from './scenario.js'

/** Contents of the size of the other files. */
const [small, early, late] = [1, 2, 3].map((byte) => Buffer.alloc(fileBytes, byte)) as [
  Buffer,
  Buffer,
  Buffer,
]

const tree =
  (what: string) =>
  ({ files }: Plan): string =>
    `${what} of ${files.toLocaleString('en')} files`

const fork: Scenario = {
  name: 'fork',
  title: (plan) => `${tree('fork')(plan)}, and a first write`,
  needs: ['fork', 'write', 'read'],
  async start({ plan, store }) {
    const files = sampleFiles(plan.files)
    const parent = await createFilled(await store(), files)
    const forks: Workspace[] = []
    return {
      prepare: () => disposeAll(forks),
      run: () =>
        repeat(plan, Math.ceil(plan.count / 10), async (number) => {
          const child = await parent.fork!()
          forks.push(child)
          await child.write!(files[number % files.length]![0], small)
        }),
      check: async () => {
        await disposeAll(forks)
        return checkFork(parent, files)
      },
    }
  },
}

/** A fork has all earlier writes of its parent and none of the later ones, and the parent has none of the fork. */
async function checkFork(parent: Workspace, files: Files): Promise<string[]> {
  const [[first], [second], [third]] = files as [Files[number], Files[number], Files[number]]
  const problems: string[] = []
  await parent.write!(first, early)
  const child = await parent.fork!()
  const sibling = await parent.fork!()
  if (!(await holds(child, first, early))) problems.push('wrong: a fork lacks an earlier write of its parent')
  await child.write!(second, small)
  await parent.write!(third, late)
  if (await holds(child, third, late)) problems.push('wrong: a fork sees a later write of its parent')
  if (await holds(parent, second, small)) problems.push('wrong: a parent sees a write of its fork')
  if (await holds(sibling, second, small)) problems.push('wrong: a fork sees a write of another fork')
  problems.push(...(await compare(child, files.slice(3), ' in a fork')))
  await disposeAll([child, sibling])
  return problems
}

const copy: Scenario = {
  name: 'copy',
  title: tree('copy of a workspace'),
  needs: ['copy', 'write', 'read'],
  async start({ plan, store }) {
    const files = sampleFiles(plan.files)
    const original = await createFilled(await store(), files)
    const copies: Workspace[] = []
    return {
      prepare: () => disposeAll(copies),
      run: () =>
        repeat(plan, 3, async () => {
          copies.push(await original.copy!())
        }),
      async check() {
        const copied = copies.at(-1)!
        const [[first, before]] = files as [Files[number]]
        await copied.write!(first, small)
        const isolated = await holds(original, first, before)
        return [
          ...(isolated ? [] : ['wrong: the original sees a write of its copy']),
          ...(await compare(copied, files.slice(1), ' in a copy')),
        ]
      },
    }
  },
}

const checkpoint: Scenario = {
  name: 'checkpoint',
  title: tree('checkpoint'),
  needs: ['checkpoint', 'restore', 'write', 'read'],
  async start({ plan, store }) {
    const files = sampleFiles(plan.files)
    const workspace = await createFilled(await store(), files)
    const [[path, content]] = files as [Files[number]]
    let last: unknown
    return {
      // A checkpoint of an unchanged tree might cost nothing.
      prepare: async (round) => workspace.write!(files[round % files.length]![0], content),
      run: () =>
        repeat(plan, plan.count, async () => {
          last = await workspace.checkpoint!()
        }),
      async check() {
        await workspace.write!(path, content)
        last = await workspace.checkpoint!()
        await workspace.write!(path, small)
        await workspace.restore!(last)
        return (await holds(workspace, path, content)) ? [] : ['wrong: a restore left a later write']
      },
    }
  },
}

const restore: Scenario = {
  name: 'restore',
  title: tree('restore'),
  needs: ['checkpoint', 'restore', 'write', 'read'],
  async start({ plan, store }) {
    const files = sampleFiles(plan.files)
    const workspace = await createFilled(await store(), files)
    const [[path, content]] = files as [Files[number]]
    const checkpoints = [await workspace.checkpoint!()]
    await workspace.write!(path, small)
    checkpoints.push(await workspace.checkpoint!())
    return {
      run: () => repeat(plan, plan.count, (number) => workspace.restore!(checkpoints[number % 2])),
      async check() {
        await workspace.restore!(checkpoints[1])
        const second = await holds(workspace, path, small)
        await workspace.restore!(checkpoints[0])
        const first = await holds(workspace, path, content)
        return [
          ...(first && second ? [] : ['wrong: a restore gave another state']),
          ...(await compare(workspace, files.slice(1), ' after a restore')),
        ]
      },
    }
  },
}

/** The cold figure is that of a process that has not opened the store before. */
const open: Scenario = {
  name: 'open',
  title: (plan) => `${tree('open of a store')(plan)}, and a read of one`,
  needs: ['resume', 'write', 'read'],
  async fill({ plan, store }) {
    return (await createFilled(await store(), sampleFiles(plan.files))).id!
  },
  async start({ plan, reopen, filled }) {
    const files = sampleFiles(plan.files)
    let store: Store | undefined
    let workspace: Workspace | undefined
    const close = async (): Promise<void> => void (await store?.close())
    return {
      prepare: close,
      async run(round) {
        store = await reopen()
        workspace = await store.resume!(filled!)
        await workspace.read!(files[(round * 7919) % files.length]![0])
        return 1
      },
      async check() {
        const problems = await compare(workspace!, files)
        await close()
        return problems
      },
    }
  },
}

async function disposeAll(workspaces: Workspace[]): Promise<void> {
  for (const workspace of workspaces.splice(0)) await workspace.dispose?.()
}

export const treeScenarios: readonly Scenario[] = [fork, copy, checkpoint, restore, open]
