// Undo and redo of an editor, over LevelDB. Each step is a checkpoint, and the history survives the process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEngine } from 'forkspace'
import { levelStorage } from 'forkspace/level'

const directory = mkdtempSync(join(tmpdir(), 'forkspace-undo-'))
process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
let sessionId: string
{
  await using engine = await openEngine({ storage: levelStorage(directory) })
  const document = await engine.sessions.create({ files: { '/poem.txt': '' } })
  sessionId = document.id
  for (const [step, line] of ['Roses are red', 'Violets are blue', 'Oops'].entries()) {
    await document.checkpoint({ checkpointLabel: `step-${step}` })
    await document.fs.promises.appendFile('/poem.txt', `${line}\n`)
  }
}
// The application was restarted.
await using engine = await openEngine({ storage: levelStorage(directory) })
const document = await engine.sessions.open(sessionId)
const show = async (): Promise<void> =>
  console.log(JSON.stringify(await document.fs.promises.readFile('/poem.txt', 'utf8')))
await show()
await document.checkpoint({ checkpointLabel: 'before-undo' })
await document.restore({ checkpointLabel: 'step-2' }) // undo
await show()
await document.restore({ checkpointLabel: 'before-undo' }) // redo
await show()

// Prints:
// "Roses are red\nViolets are blue\nOops\n"
// "Roses are red\nViolets are blue\n"
// "Roses are red\nViolets are blue\nOops\n"
