import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Slow files with little text, slowest first. Ordered by size they would run last. */
const long = [
  'test/package/bench',
  'test/crash/loops',
  'test/crash/kill',
  'test/unit/level-faults',
  'test/unit/git-',
  'test/unit/fs/',
  'test/cli/serve',
  'test/crash/',
  'test/compat/isomorphic-git',
  'test/model/',
]

/** The projects whose files share processes. The files of the others start before them. */
const sharing = ['children', 'shared', 'storage']

function rank({ moduleId, project }: TestSpecification): number {
  const place = long.findIndex((part) => moduleId.includes(part))
  const within = place < 0 ? long.length : place
  return (sharing.indexOf(project.name) + 1) * (long.length + 1) + within
}

/**
 * Starts slow files first, so that no worker is left running one alone at the end. Keeps files that share processes
 * together: a worker that takes a file of another project in between exits, and its successor reloads everything.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }

  /** Deals the files out in turns, so that each shard has its part of the slow ones. */
  override async shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { index = 1, count = 1 } = this.ctx.config.shard ?? {}
    const byPath = files.toSorted((a, b) => (a.moduleId < b.moduleId ? -1 : 1))
    return byPath.toSorted((a, b) => rank(a) - rank(b)).filter((_, at) => at % count === index - 1)
  }
}
