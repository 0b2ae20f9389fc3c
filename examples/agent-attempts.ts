// Three agents try to fix the same bug, each in a fork of its own. The first fork that passes the check wins.
import { openEngine, type Session } from 'forkspace'

await using engine = await openEngine()
const project = await engine.sessions.create({
  files: { '/add.js': 'export const add = (a, b) => a - b\n', '/README.md': '# Calculator\n' },
})

const agents: Record<string, string> = {
  careless: 'export const add = (a, b) => a * b\n',
  careful: 'export const add = (a, b) => a + b\n',
  wordy: 'export const add = (a, b) => [a, b].reduce((sum, value) => sum + value, 0)\n',
}
const attempts = await Promise.all(
  Object.entries(agents).map(async ([agent, content]) => {
    const fork = await project.fork({ newTags: { agent } })
    await fork.files.write({ path: '/add.js', content })
    return { agent, fork, passes: await passes(fork) }
  }),
)
for (const { agent, fork, passes } of attempts) {
  const { modified } = await fork.diff(project).paths()
  console.log(`${agent}: changed ${modified.join(', ')}, ${passes ? 'passes' : 'fails'}`)
}
const best = attempts.find(({ passes }) => passes)
console.log(`chosen: ${best?.agent}`)
console.log(`the project itself: ${await project.fs.promises.readFile('/add.js', 'utf8')}`.trim())

/** Loads the module from the fork and calls it. */
async function passes(fork: Session): Promise<boolean> {
  const source = await fork.fs.promises.readFile('/add.js', 'base64')
  const { add } = (await import(`data:text/javascript;base64,${source}`)) as {
    add: (a: number, b: number) => number
  }
  return add(2, 3) === 5 && add(2, 2) === 4
}

// Prints:
// careless: changed /add.js, fails
// careful: changed /add.js, passes
// wordy: changed /add.js, passes
// chosen: careful
// the project itself: export const add = (a, b) => a - b
