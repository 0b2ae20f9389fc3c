import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take long and are short to read, the longest ones first: by their size they would come last. */
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

/**
 * Files known to take long go first, so that no worker is left alone with one at the end. Files that share processes
 * follow each other: a worker that takes a file of another project in between ends, and its successor loads all again.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const place = long.findIndex((part) => moduleId.includes(part))
      const within = place < 0 ? long.length : place
      const group = project.config.isolate ? 0 : project.name === 'children' ? 1 : 2
      return group * (long.length + 1) + within
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}
