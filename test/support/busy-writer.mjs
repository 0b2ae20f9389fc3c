/** Writes to a store until it is killed, and prints the number of each write when it is acknowledged. */
import { randomBytes } from 'node:crypto'
import { argv, stdout } from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
const [, , sources, directory, segmentBytes] = argv
const { openEngine } = await import(`${sources}/index.js`)
const { openLevelStore } = await import(`${sources}/adapters/level/open-level-store.js`)
const storage = {
  open: () => openLevelStore(directory, { durability: 'full', segmentBytes: Number(segmentBytes) }),
}
const engine = await openEngine({ storage })
const session = await engine.sessions.create()
stdout.write(`session ${session.id}\n`)
/** Writes data and deletes it at once, so that segments are created and deleted. */
async function waste() {
  for (;;) {
    const other = await engine.sessions.create({ files: { '/waste': randomBytes(200_000) } })
    await engine.sessions.delete(other.id)
    await engine.collect()
    await pause(10)
  }
}
async function write() {
  for (let n = 0; ; n++) {
    await session.files.write({ path: `/f${n}`, content: `content ${n} `.repeat(100) })
    stdout.write(`${n}\n`)
    // The cost of the tests grows with the number of files.
    await pause(2)
  }
}
await Promise.all([waste(), write()])
