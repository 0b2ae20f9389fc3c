import type { Store, Workspace } from '../contender.js'
import { compare, createFilled, fill, holds, repeat, sampleFiles, type Scenario } from './scenario.js'

const fixtureFiles = 500
const content = Buffer.alloc(1024, 1)

/**
 * A test suite: each test gets its own workspace with the files of the fixture, reads ten of them, writes two, and
 * drops the workspace. A contender without forks copies the fixture, and one without copies writes it again.
 */
export const fixture: Scenario = {
  name: 'fixture',
  title: () => `test over a fixture of ${fixtureFiles} files: its own files, 10 reads, 2 writes`,
  needs: ['write', 'read'],
  async start({ plan, store }) {
    const opened = await store()
    const files = sampleFiles(fixtureFiles)
    const original = await createFilled(opened, files)
    const path = (number: number): string => files[number % files.length]![0]
    return {
      run: () =>
        repeat(plan, 1000, async (number) => {
          const workspace = await ownFiles(opened, original, files)
          for (let i = 0; i < 10; i++) await workspace.read!(path(number * 7 + i * 41))
          await workspace.write!(path(number), content)
          await workspace.write!(path(number + 250), content)
          await workspace.dispose?.()
        }),
      async check() {
        const first = await ownFiles(opened, original, files)
        await first.write!(path(0), content)
        const seen = await holds(first, path(0), content)
        await first.dispose?.()
        const second = await ownFiles(opened, original, files)
        return [
          ...(seen ? [] : ['wrong: a test does not see its own write']),
          ...(await compare(second, files, ' in a later test')),
        ]
      },
    }
  },
}

async function ownFiles(
  store: Store,
  original: Workspace,
  files: ReturnType<typeof sampleFiles>,
): Promise<Workspace> {
  if (original.fork !== undefined) return original.fork()
  if (original.copy !== undefined) return original.copy()
  const workspace = await store.create()
  await fill(workspace, files)
  return workspace
}
