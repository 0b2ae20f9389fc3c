// Serves an engine over HTTP and works on it with the client, whose handles are those of the engine.
import { openEngine, type SessionApi } from 'forkspace'
import { connect } from 'forkspace/client'
import { createHttpHandler, serve, staticTokens } from 'forkspace/http'

await using engine = await openEngine()
const token = 'a-long-random-token'
const authenticate = staticTokens({ [token]: { tenant: 'acme', principal: 'agent-1' } })
const server = await serve(createHttpHandler(engine, { authenticate }), { port: 0 })

const remote = connect({ baseUrl: server.url, token })
const session = await remote.sessions.create({ files: { '/notes.md': 'one\n' } })
await addLine(session)
// The same function works on a session in this process.
await addLine(await engine.as({ tenant: 'acme', principal: 'agent-2' }).sessions.open(session.id))
console.log(await session.fs.promises.readFile('/notes.md', 'utf8'))
for await (const { eventType } of session.events) console.log(eventType)
await server.close()

async function addLine({ files }: SessionApi): Promise<void> {
  await files.append({ path: '/notes.md', content: 'another\n' })
}

// Prints:
// one
// another
// another
//
// v1.SessionService.CreateSession
// v1.FileSystemService.WriteFile
// v1.FileSystemService.WriteFile
