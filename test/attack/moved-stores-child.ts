/** Opens the store of a directory and changes it on request. */
import { send } from 'node:process'
import { openLevelStore, type OpenLevelStoreOptions } from '../../src/adapters/level/open-level-store.js'
import { EngineError, openEngine, type Engine, type Session } from '../../src/index.js'

export type Request =
  | { readonly ask: 'open'; readonly directory: string; readonly hold: OpenLevelStoreOptions['hold'] }
  | { readonly ask: 'write'; readonly from: number; readonly count: number }
  | { readonly ask: 'collect' }
  | { readonly ask: 'close' }

export interface Response {
  /** The numbers of the files whose writes were acknowledged. */
  readonly acknowledged: readonly number[]
  /** The reasons for which the other writes were rejected. */
  readonly reasons: readonly string[]
}

const pending = 8
let engine: Engine | undefined
let session: Session | undefined

process.on('message', ([id, request]: [number, Request]) => {
  answer(request).then(
    (found) => process.send!([id, found]),
    (error: unknown) => process.send!([id, { acknowledged: [], reasons: [String(error)] }]),
  )
})

async function answer(request: Request): Promise<Response> {
  if (request.ask === 'write') return write(request.from, request.count)
  const act = { open: () => open(request as Request & { ask: 'open' }), collect, close }[request.ask]
  const reason = await act().then(() => '', reasonOf)
  return { acknowledged: [], reasons: reason === '' ? [] : [reason] }
}

async function open({ directory, hold }: Request & { ask: 'open' }): Promise<void> {
  const options = { durability: 'relaxed', segmentBytes: 2 ** 16, flushEntries: 200 } as const
  const storage = { open: () => openLevelStore(directory, { ...options, ...(hold && { hold }) }) }
  engine = await openEngine({ storage })
  const { sessions } = await engine.sessions.list()
  session = sessions[0] ? await engine.sessions.open(sessions[0].id) : await engine.sessions.create()
}

async function write(from: number, count: number): Promise<Response> {
  const acknowledged: number[] = []
  const reasons = new Set<string>()
  let next = from
  const writer = async (): Promise<void> => {
    while (next < from + count) {
      const n = next++
      try {
        await session!.files.write({ path: `/${n}`, content: `content ${n} `.repeat(200) })
        // Overwriting leaves garbage to collect.
        await session!.files.write({ path: '/again', content: `again ${n} `.repeat(500) })
        acknowledged.push(n)
      } catch (error) {
        reasons.add(reasonOf(error))
      }
    }
  }
  await Promise.all(Array.from({ length: pending }, writer))
  return { acknowledged, reasons: [...reasons] }
}

async function collect(): Promise<void> {
  await engine!.collect()
}

async function close(): Promise<void> {
  const closing = engine?.close()
  engine = undefined
  await closing
}

function reasonOf(error: unknown): string {
  return error instanceof EngineError ? error.reason : `not an EngineError: ${String(error)}`
}

if (send === undefined) throw new Error('this is run by moved-stores')
