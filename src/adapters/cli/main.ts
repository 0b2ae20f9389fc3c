#!/usr/bin/env node
import { isatty } from 'node:tty'
// Modules that the command loads later import from `program.js`, so its evaluation must be complete before
// `run` starts.
const { run } = await import('./program.js')
const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor))
process.exitCode = await run(process.argv.slice(2))
// Node aborts when it ends after its terminal was closed. The signal of a closed terminal ends it instead.
if (terminals.some((descriptor) => !isatty(descriptor))) process.kill(process.pid, 'SIGHUP')
