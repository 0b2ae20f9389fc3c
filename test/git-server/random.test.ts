/** Two clients of native git change, move, revert, merge and push the same session at random, and it changes too. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openEngine } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { hasGit } from '../support/git-repository.js'
import { GitWorld, type GitClone } from '../support/git-world.js'
import { runs, seed } from '../support/seed.js'

const roundsOfRun = 12

test.skipIf(!hasGit)(
  `takes every push that builds on its newest commit (FORKSPACE_SEED=${seed})`,
  { timeout: 600_000 },
  async () => {
    for (let run = 0; run < runs(20); run++)
      expect(await pushAtRandom(seed + run)).toBeGreaterThan(roundsOfRun / 3)
  },
)

/** Returns the number of pushes. */
async function pushAtRandom(from: number): Promise<number> {
  const next = randomWords(from)
  const below = (count: number): number => next() % count
  await using engine = await openEngine()
  await using world = await GitWorld.open(engine)
  // Several files have the same contents, so that git sends few of them.
  const text = (): string => `${'line\n'.repeat(20 * (1 + below(4)))}${below(3)}\n`
  const paths = ['a', 'b', 'x/a', 'x/b', 'x/y/a', 'z/a', 'z/b']
  const session = await engine.sessions.create({
    files: Object.fromEntries(paths.map((path) => [`/${path}`, text()])),
  })
  const clones = [await world.clone(session), await world.clone(session)]
  let accepted = 0
  for (let round = 0; round < roundsOfRun; round++) {
    const clone = clones[below(2)]
    if (clone === undefined) continue
    for (let changes = 1 + below(3); changes > 0; changes--) await change(clone, paths, below, text)
    if (below(4) === 0) {
      const path = `/${paths[below(paths.length)]}`
      await session.files.write({ path, content: text(), createParents: true }).catch(() => undefined)
    }
    const merges = below(2) === 0 ? ['--no-rebase', '--no-edit', '-Xours'] : ['--rebase', '-Xtheirs']
    const pulled = await clone.run('pull', '--quiet', ...merges)
    if (pulled.code !== 0) {
      // A conflict that no strategy solves, such as a file in the place of a directory.
      await clone.run('rebase', '--abort')
      await clone.run('merge', '--abort')
      await clone.git('reset', '--quiet', '--hard', 'origin/main')
      continue
    }
    const { code, stderr } = await clone.run('push', '--quiet')
    expect([`seed ${from}, round ${round}`, code, stderr]).toEqual([`seed ${from}, round ${round}`, 0, ''])
    accepted++
    const files = (await clone.git('ls-tree', '-r', '--name-only', 'HEAD')).split('\n').filter(Boolean)
    const entries = await session.fs.promises.readdir('/', { recursive: true, withFileTypes: true })
    const inSession = entries
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name).slice(1))
    expect(inSession.toSorted()).toEqual(files.toSorted())
  }
  const fresh = await world.clone(session)
  expect(await fresh.git('fsck', '--strict')).toBe('')
  return accepted
}

/** Makes one commit with a random change. It may also make none. */
async function change(
  clone: GitClone,
  paths: readonly string[],
  below: (count: number) => number,
  text: () => string,
): Promise<void> {
  const path = paths[below(paths.length)] ?? 'a'
  const other = `${['', 'x/', 'z/', 'new/'][below(4)]}${'abcd'[below(4)]}`
  const has = existsSync(join(clone.path, path))
  switch (below(5)) {
    case 0:
      if (has) await clone.run('mv', path, other)
      break
    case 1:
      if (existsSync(join(clone.path, 'x'))) await clone.run('mv', 'x', `moved-${below(3)}`)
      break
    case 2:
      if (has && readdirSync(clone.path).length > 3) await clone.git('rm', '--quiet', path)
      break
    case 3:
      await clone.run('revert', '--no-edit', `HEAD~${below(3)}`)
      await clone.run('revert', '--abort')
      break
    default:
      if (has) await clone.commit({ [path]: text() }).catch(() => undefined)
  }
  await clone.run('commit', '--quiet', '--all', '-m', 'a change')
}
