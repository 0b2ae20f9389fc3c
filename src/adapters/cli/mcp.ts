import { Readable, Transform, type Writable } from 'node:stream'
import type { Context } from './context.js'
import { Failure } from './failure.js'
import type { World } from './world.js'

/** Serves a session over MCP on standard input and output, until the input ends or a signal arrives. */
export async function serveMcp(context: Context, [prefix]: readonly [string]): Promise<void> {
  const [{ workspaceServer }, { serveStdio, StdioServerTransport }] = await loadPackage()
  const session = await context.session(prefix)
  const { world } = context
  const input = world.stdin instanceof Readable ? world.stdin : Readable.from(world.stdin)
  const requests = input.pipe(whileRead(world.stdout))
  input.once('error', (error) => requests.destroy(error))
  const transport = new StdioServerTransport(requests, world.stdout)
  const ended = endOf(requests, world)
  const connection = serveStdio(() => workspaceServer(session), {
    transport,
    onerror: ({ message }) => context.note(`forkspace: ${message}`),
  })
  await ended
  await connection.close()
  // A paused input would keep the process alive.
  input.destroy()
}

/** Only this verb needs the package of the protocol. It is an optional peer dependency. */
async function loadPackage() {
  try {
    return await Promise.all([import('../mcp/index.js'), import('@modelcontextprotocol/server/stdio')])
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes('@modelcontextprotocol/server')) throw error
    throw new Failure(
      'mcp needs the package @modelcontextprotocol/server: run npm install @modelcontextprotocol/server',
      { cause: error },
    )
  }
}

/**
 * Passes requests on while the client reads the answers. The answers to a client that only sends would fill the
 * memory.
 */
function whileRead(answers: Writable): Transform {
  return new Transform({
    transform: (chunk, _, done) => {
      if (answers.writableNeedDrain) answers.once('drain', () => done(null, chunk))
      else done(null, chunk)
    },
  })
}

/**
 * Resolves when the input ends or fails, or with the first SIGINT or SIGTERM. After a line that is too long, the transport
 * closes and pauses the input, which then never ends.
 */
function endOf(input: Readable, world: World): Promise<void> {
  return new Promise((resolve) => {
    const signals = ['SIGINT', 'SIGTERM'] as const
    const end = (): void => {
      for (const each of signals) world.removeListener(each, end)
      resolve()
    }
    for (const each of signals) world.on(each, end)
    for (const event of ['end', 'close', 'error', 'pause']) input.once(event, end)
  })
}
