import { openEngine } from 'forkspace'
import { race } from '../support/measure.js'
import { filesOf, flatPaths, projectPaths } from '../support/project-files.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'
import { TreeOperations } from '../support/trees.js'

/** Milliseconds. */
const targets = {
  fork: 0.001,
  'first write after fork': 0.012,
  checkpoint: 0.002,
  restore: 0.002,
  'manifest page of 1,000': 0.28,
  'manifestHash after one write': 0.039,
  'diff, 10 changes': 0.14,
  'rename of the directory with all files': 0.2,
  'first write after fork, flat directory': 0.012,
}
/** Targets for a tree of a million files. */
const millionTargets = { ...targets, 'diff, 10 changes': 0.25 }

/** Operations with a cost that should not depend on the size of the tree. */
export const trees: Scenario = {
  name: 'trees',
  title: 'Large trees in memory',
  async *run(context) {
    for (const size of context.files) yield* atSize(context, size)
  },
}

async function* atSize(context: Context, size: number): AsyncGenerator<Row> {
  await using engine = await openEngine()
  const paths = projectPaths(size)
  const named = (what: string): string => `${what}, ${size} files`
  const tree = await TreeOperations.of(await engine.sessions.create({ files: filesOf(paths) }), paths)
  const flatFiles = flatPaths(size)
  const flat = await TreeOperations.of(await engine.sessions.create({ files: filesOf(flatFiles) }), flatFiles)
  const timings = await race(
    {
      fork: tree.fork(context.count(1000)),
      'first write after fork': tree.firstWrite(context.count(500)),
      'first write after fork, flat directory': flat.firstWrite(context.count(500)),
      checkpoint: await tree.checkpoint(context.count(1000)),
      restore: await tree.restore(context.count(1000)),
      'manifest page of 1,000': await tree.manifestPage(context.count(20), context.smoke ? 100 : 1000),
      'manifestHash after one write': tree.manifestHash(context.count(200)),
      'diff, 10 changes': tree.diff(context.count(50), 10),
      'rename of the directory with all files': await tree.renameAll(context.count(200)),
    },
    { rounds: context.rounds, warmUps: 2 },
  )
  for (const name of Object.keys(timings) as (keyof typeof timings)[]) {
    const atMost = (size >= 1e6 ? millionTargets : targets)[name]
    yield timingRow({ what: named(name), ours: timings[name], target: { atMost } })
  }
}
