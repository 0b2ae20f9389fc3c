/** The process that is killed while it uses the services of a session; see `writer.ts`. */
import { openSync, writeSync } from 'node:fs'
import { argv, stdout } from 'node:process'
import { levelStorage } from '../../src/adapters/level/index.js'
import { openEngine, type Session } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import {
  cacheKeys,
  casesOf,
  kinds,
  masterKey,
  secretNames,
  valueOf,
  type Kind,
  type ServiceLine,
  type ServiceWriterArguments,
} from './services-protocol.js'

const settings = JSON.parse(argv[2]!) as ServiceWriterArguments
const report = openSync(settings.report, 'a')
const random = randomWords(settings.seed)
const { directory, durability, sessionId, firstNumber } = settings
const engine = await openEngine({ storage: levelStorage(directory, { durability }), secrets: { masterKey } })
const session = sessionId === '' ? await engine.sessions.create() : await engine.sessions.open(sessionId)
await session.files.write({ path: '/file', content: 'reviewed' })
const expectedContentHash = await session.files.contentHash('/file')
writeLine({ session: session.id })
stdout.write('ready\n')

const calls: Record<Kind, (to: Session, n: number) => Promise<unknown>> = {
  annotation: ({ annotations }, n) =>
    annotations.add({ filePath: '/file', lineNumber: n, expectedContentHash, comment: valueOf(n) }),
  approval: ({ approvals }, n) => approvals.request({ details: { summary: valueOf(n) } }),
  cache: ({ cache }, n) => cache.put({ key: `key ${n % cacheKeys}`, value: valueOf(n) }),
  message: ({ bus }, n) => bus.publish({ topic: 'n', payload: valueOf(n) }),
  lock: ({ fileLocks }, n) => fileLocks.lock({ path: `/lock/${n}`, timeoutSeconds: 86_400 }),
  secret: ({ secrets }, n) => secrets.put({ secretName: `s${n % secretNames}`, secretValue: valueOf(n) }),
  report: ({ health }, n) =>
    health.report({
      reportFormat: 'junit-xml/v1',
      reportContent: `<testsuite>${'<testcase/>'.repeat(casesOf(n))}</testsuite>`,
    }),
}

const pending = new Set<Promise<void>>()
for (let n = firstNumber; ; n++) {
  const kind = kinds[random() % kinds.length]!
  writeLine({ call: n, kind })
  const settled = calls[kind](session, n).then(() => {
    writeLine({ done: n })
    pending.delete(settled)
  })
  pending.add(settled)
  if (pending.size >= settings.pending) await Promise.race(pending)
  if (n % 16 === 0) await new Promise((resolve) => setImmediate(resolve))
}

function writeLine(line: ServiceLine): void {
  writeSync(report, `${JSON.stringify(line)}\n`)
}
