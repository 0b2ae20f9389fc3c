import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { differenceRow, singleRow } from '../support/rows.js'
import type { HeapReport } from '../support/report-heap.js'
import type { Context, Scenario } from '../support/scenario.js'

const targets = { file: { atMost: 255 }, fork: { atMost: 490 } }

/** Each measurement runs in its own process, so that nothing else changes the heap. */
export const heap: Scenario = {
  name: 'heap',
  title: 'JavaScript heap, and the time to create a tree, in a fresh process',
  async *run(context) {
    for (const size of context.files) {
      const memory = await report(context, size, 'memory')
      yield singleRow(`create from an object, per file, ${size} files`, 'time', memory.createMs / size)
      yield differenceRow(
        `heap per file, with the Buffer of its content, ${size} files`,
        'bytes',
        memory.perFile,
      )
      const level = await report(context, size, 'level')
      yield differenceRow(
        `heap per file, contents on disk, ${size} files`,
        'bytes',
        level.perFile,
        targets.file,
      )
      yield differenceRow(`heap per fork, ${size} files`, 'bytes', memory.perFork, targets.fork)
      yield differenceRow(`heap per fork, on disk, ${size} files`, 'bytes', level.perFork)
    }
  },
}

async function report(context: Context, size: number, storage: 'memory' | 'level'): Promise<HeapReport> {
  const script = join(import.meta.dirname, '../support/report-heap.js')
  const where = storage === 'memory' ? [] : [join(context.directory, String(size))]
  const args = ['--expose-gc', script, String(size), String(context.count(2000)), ...where]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return JSON.parse(stdout) as HeapReport
}
