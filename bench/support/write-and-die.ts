/** Writes files into a session of a store, then kills its own process. Arguments: directory, session, count. */
import { openEngine } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { projectRoot } from './project-files.js'

const [directory = '', sessionId = '', count = ''] = process.argv.slice(2)
const engine = await openEngine({ storage: levelStorage(directory, { durability: 'relaxed' }) })
const session = await engine.sessions.open(sessionId)
const { promises } = session.fs
await promises.mkdir(`${projectRoot}/late`)
// Creating the directory is one of the events.
for (let number = 1; number < Number(count); number++) {
  await promises.writeFile(`${projectRoot}/late/file-${number}`, `content ${number}\n`)
}
process.kill(process.pid, 'SIGKILL')
