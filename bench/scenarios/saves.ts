import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { openEngine, type Session } from 'forkspace'
import { levelStorage } from 'forkspace/level'
import { expect, race } from '../support/measure.js'
import { contents } from '../support/project-files.js'
import { singleRow, timingRow } from '../support/rows.js'
import type { Context, Row } from '../support/scenario.js'

const mebibyte = 2 ** 20
const path = '/note.txt'

/** Whole writes of a file of 1 MiB with one changed character, as editors save: their time, and the growth of the store. */
export async function* saves(context: Context): AsyncGenerator<Row> {
  const directory = join(context.directory, 'saves')
  const storage = levelStorage(directory, { durability: 'relaxed' })
  const content = Buffer.concat(contents(1, mebibyte))
  const count = context.count(60)
  const first = await openEngine({ storage })
  const { id } = await first.sessions.create({ files: { [path]: content } })
  await first.close()
  const before = await sizeOf(directory)
  const second = await openEngine({ storage })
  await save(await second.sessions.open(id), content, count)
  await second.close()
  const growth = (await sizeOf(directory)) - before
  const target = { atMost: 2 * mebibyte }
  yield singleRow(`growth of the store by ${count} saves of 1 MiB`, 'bytes', growth, target)

  await using engine = await openEngine({ storage })
  const session = await engine.sessions.create()
  const timings = await race(
    { save: { count, run: () => save(session, content, count) } },
    { rounds: context.rounds },
  )
  yield timingRow({ what: 'save of 1 MiB with one changed character, relaxed', ours: timings.save })
}

/** Saves the file, each time with another changed character. */
async function save({ fs }: Session, content: Buffer, count: number): Promise<void> {
  for (let i = 1; i <= count; i++) {
    const at = (i * 7919 * 131) % mebibyte
    content.writeUInt8(content.readUInt8(at) ^ 1, at)
    await fs.promises.writeFile(path, content)
  }
  expect(content.equals(await fs.promises.readFile(path)), 'a save is lost')
}

async function sizeOf(directory: string): Promise<number> {
  let bytes = 0
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size
  return bytes
}
