// Notes of a desktop application: undo, redo, and a process that is killed in the middle of a write.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { openEngine } from 'forkspace'
import { levelStorage } from 'forkspace/level'

const [storeOfChild, idOfChild] = process.argv.slice(2)
if (storeOfChild === undefined || idOfChild === undefined) await main()
else await writeUntilKilled(storeOfChild, idOfChild)

async function main(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'forkspace-notes-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  let sessionId: string
  {
    await using engine = await openEngine({ storage: levelStorage(directory) })
    const notes = await engine.sessions.create({ files: { '/list.txt': 'milk\n' } })
    sessionId = notes.id
    await notes.files.append({ path: '/list.txt', content: 'bread\n' })
    await notes.undo()
    console.log('undo:', JSON.stringify(notes.fs.readFileSync('/list.txt', 'utf8')))
    await notes.redo()
    console.log('redo:', JSON.stringify(notes.fs.readFileSync('/list.txt', 'utf8')))
  }

  const acknowledged = await killWriter(directory, sessionId)

  await using engine = await openEngine({ storage: levelStorage(directory) })
  const notes = await engine.sessions.open(sessionId)
  const lineCount = async (): Promise<number> =>
    (await notes.fs.promises.readFile('/log.txt', 'utf8')).split('\n').length - 1
  const found = await lineCount()
  // The last write can be complete although its acknowledgement did not arrive.
  console.log('after the crash: lost', Math.max(0, acknowledged - found), 'acknowledged lines')
  await notes.undo()
  console.log('undo removes', found - (await lineCount()), 'line')
}

/** Starts this program again, and kills it while it writes. Returns the number of its acknowledged lines. */
async function killWriter(directory: string, sessionId: string): Promise<number> {
  const script = fileURLToPath(import.meta.url)
  const child = spawn(process.execPath, [script, directory, sessionId], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let acknowledged = 0
  for await (const line of createInterface({ input: child.stdout })) {
    acknowledged = Number(line)
    if (acknowledged === 20) child.kill('SIGKILL')
  }
  await exited
  return acknowledged
}

async function writeUntilKilled(directory: string, sessionId: string): Promise<void> {
  const engine = await openEngine({ storage: levelStorage(directory) })
  const notes = await engine.sessions.open(sessionId)
  for (let number = 1; ; number++) {
    await notes.files.append({ path: '/log.txt', content: `line ${number}\n` })
    process.stdout.write(`${number}\n`)
  }
}

// Prints:
// undo: "milk\n"
// redo: "milk\nbread\n"
// after the crash: lost 0 acknowledged lines
// undo removes 1 line
