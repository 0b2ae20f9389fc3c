// Three agents work in forks of one project. The best fix is merged, and then a compatible attempt at another task.
import { openEngine, type Session } from 'forkspace'

await using engine = await openEngine()
const project = await engine.sessions.create({
  files: { '/add.js': 'export const add = (a, b) => a - b\n', '/README.md': '# Calculator\n' },
})

const agents: Record<string, string> = {
  careless: 'export const add = (a, b) => a * b\n',
  wordy: 'export const add = (a, b) => [a, b].reduce((sum, value) => sum + value, 0)\n',
  careful: 'export const add = (a, b) => a + b\n',
}
const attempts = await Promise.all(
  Object.entries(agents).map(async ([agent, content]) => {
    const fork = await project.fork({ newTags: { agent } })
    await fork.files.write({ path: '/add.js', content })
    return { agent, fork, passes: await passes(fork), size: content.length }
  }),
)
const writer = await project.fork({ newTags: { agent: 'writer' } })
await writer.files.append({ path: '/README.md', content: 'It adds numbers.\n' })

for (const { agent, passes } of attempts) console.log(`${agent}: ${passes ? 'passes' : 'fails'}`)
const [best] = attempts.filter(({ passes }) => passes).toSorted((a, b) => a.size - b.size)
if (best === undefined) throw new Error('no attempt passes')
console.log(`best: ${best.agent}`)

for (const fork of [best.fork, writer]) {
  const { changes, conflicts } = await project.merge(fork)
  console.log(`merged ${changes.map(({ path }) => path).join(', ')}: ${conflicts.length} conflicts`)
}
console.log(`the project passes: ${await passes(project)}`)

/** Loads the module from the session and calls it. */
async function passes(session: Session): Promise<boolean> {
  const source = await session.fs.promises.readFile('/add.js', 'base64')
  const { add } = (await import(`data:text/javascript;base64,${source}`)) as {
    add: (a: number, b: number) => number
  }
  return add(2, 3) === 5 && add(2, 2) === 4
}

// Prints:
// careless: fails
// wordy: passes
// careful: passes
// best: careful
// merged /add.js: 0 conflicts
// merged /README.md: 0 conflicts
// the project passes: true
