import { heapBytes } from '../../support/measure.js'
import type { Workspace } from '../contender.js'
import { compare, createFilled, fill, sampleFiles, type Scenario } from './scenario.js'

/** The JavaScript heap and the buffers of a file. It excludes the caches and maps of native code. */
export const heap: Scenario = {
  name: 'heap',
  title: ({ files }) => `heap and buffers of a file of 1 KiB, among ${files.toLocaleString('en')}`,
  needs: ['write', 'read'],
  guarantees: ['memory'],
  unit: 'bytes',
  async start({ plan, store }) {
    const opened = await store()
    // Warms up, so that the figure excludes compiled code.
    await createFilled(opened, sampleFiles(100))
    let workspace: Workspace
    return {
      async prepare() {
        workspace = await opened.create()
      },
      async run() {
        const before = await used()
        await fill(workspace, sampleFiles(plan.files, 3))
        return Math.max(0, (await used()) - before) / plan.files
      },
      check: () => compare(workspace, sampleFiles(plan.files, 3)),
    }
  },
}

async function used(): Promise<number> {
  return (await heapBytes()) + process.memoryUsage().external
}
