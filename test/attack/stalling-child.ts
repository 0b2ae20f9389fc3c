/** Imports from all stalled sources at once; SIGTERM closes its engine and ends the process. */
import { openEngine } from '../../src/index.js'
import { stalledJobs, stalledOptions } from './stalled-jobs.js'
import { serveStalled } from './stalled-remotes.js'

const server = await serveStalled()
const engine = await openEngine(stalledOptions)
const timer = setInterval(() => undefined, 1000)
process.on('SIGTERM', () => {
  engine
    .close()
    .then(() => server[Symbol.asyncDispose]())
    .then(
      () => clearInterval(timer),
      (error: unknown) => {
        process.exitCode = 1
        console.error(error)
      },
    )
    .finally(() => process.exit())
})
for (const job of stalledJobs((name) => server.url(name))) await job.start(engine)
setTimeout(() => process.send!('started'), 500)
