#!/usr/bin/env node
// Modules that the command loads later import from `program.js`, so its evaluation must be complete before
// `run` starts.
const { run } = await import('./program.js')
process.exitCode = await run(process.argv.slice(2))
