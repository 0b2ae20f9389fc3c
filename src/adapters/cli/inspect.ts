import { randomBytes } from 'node:crypto'
import type { Engine, EngineScope } from '../../engine/index.js'
import { present } from '../../engine/ports.js'
import { parsePort } from './arguments.js'
import type { Context } from './context.js'
import { serveFetch } from './fetch-server.js'
import { portFailure } from './port-failure.js'
import { nextSignal } from './signals.js'

export interface InspectOptions {
  readonly write?: boolean
  readonly port?: string
}

const tokenBytes = 32
/** The caller of the page. The handle of the context decides whose sessions it sees. */
const caller = { tenant: 'local', principal: 'local' }

/** Serves the page of the inspector on loopback until a signal ends it. */
export async function inspect(
  context: Context,
  _args: readonly unknown[],
  { write = false, port: givenPort = '0' }: InspectOptions,
): Promise<void> {
  const port = parsePort(givenPort)
  const [{ inspector }, { staticTokens }] = await Promise.all([
    import('../inspector/index.js'),
    import('../http/index.js'),
  ])
  const ending = nextSignal(context.world)
  const { server } = context
  const token = randomBytes(tokenBytes).toString('base64url')
  const scope = server === undefined ? await context.engine('inspect') : undefined
  // With --as there is only the view of one tenant, and a check covers all of them.
  const engine = scope !== undefined && isWhole(scope) ? scope : undefined
  const handle = inspector(server ?? inspectedOf(scope, engine), {
    authenticate: staticTokens({ [token]: caller }),
    write,
    check: engine !== undefined,
    log: ({ message, error }) =>
      context.note(`forkspace: ${message}: ${error instanceof Error ? error.message : String(error)}`),
  })
  const served = await serveFetch(handle, port).catch((error: unknown) => {
    throw portFailure(error, port)
  })
  const url = `http://127.0.0.1:${served.port}/#token=${token}`
  await context.out.line(`forkspace inspector on ${url}`, { url, write })
  await context.out.flush()
  await ending
  await served.close()
}

function isWhole(scope: Engine | EngineScope): scope is Engine {
  return 'check' in scope
}

/** The engine as the inspector uses it: every caller has the rights of the command. */
function inspectedOf(
  scope: EngineScope | undefined,
  engine: Engine | undefined,
): Pick<Engine, 'as'> & Partial<Pick<Engine, 'check'>> {
  const as = (): EngineScope => present(scope, 'the engine of a store')
  return engine === undefined ? { as } : { as, check: (options) => engine.check(options) }
}
