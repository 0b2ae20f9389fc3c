/**
 * One of several processes that append lines to the same files. It reports each line before the call and after its
 * promise has settled. It ends when its standard input ends.
 */
import { openSync, writeSync } from 'node:fs'
import { argv, stdin, stdout } from 'node:process'
import { openEngine, type EngineError } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { sharedStorage } from './shared-storage.js'
import type { SharedWriterArguments, SharedLine } from './shared-protocol.js'

const settings = JSON.parse(argv[2] ?? '') as SharedWriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
let ends = false
stdin.resume().on('end', () => (ends = true))

const engine = await openEngine({ storage: sharedStorage(settings) })
const sessions = await Promise.all(settings.sessions.map((id) => engine.sessions.open(id)))
stdout.write('ready\n')
const pending = new Set<Promise<void>>()
for (let n = 0; !ends; n++) {
  const session = sessions[random() % sessions.length]
  if (session === undefined) break
  const text = `${settings.name}-${n}`
  writeLine({ kind: 'call', text })
  const settled = session.files
    .append({ path: '/log', content: `${text}\n` })
    .then(
      () => writeLine({ kind: 'settled', text, outcome: 'ok' }),
      (error: EngineError) => {
        const outcome = error.details['outcome'] === 'not-applied' ? 'not-applied' : 'unknown'
        writeLine({ kind: 'settled', text, outcome, reason: error.reason })
      },
    )
    .finally(() => pending.delete(settled))
  pending.add(settled)
  if (pending.size >= settings.pending) await Promise.race(pending)
  if (n % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
}
await Promise.all(pending)
await engine.close()

function writeLine(line: SharedLine): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
