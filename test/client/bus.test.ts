/** Subscriptions whose connections are cut. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/adapters/client/index.js'
import { createHttpHandler, staticTokens, toNodeHandler } from '../../src/adapters/http/index.js'
import { EngineError } from '../../src/index.js'
import { CuttingProxy } from '../support/cutting-proxy.js'
import { openRemote, type Remote } from '../support/remote.js'
import { isLong, seed } from '../support/seed.js'

let state = seed
const random = (below: number): number => {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
  return state % below
}

describe('a subscription', () => {
  let remote: Remote
  let proxy: CuttingProxy
  let url: string

  beforeAll(async () => {
    remote = await openRemote()
    proxy = new CuttingProxy(remote.server.port)
    url = await proxy.listen()
  })
  afterAll(async () => {
    await proxy.close()
    await remote.close()
  })

  const text = (payload: Uint8Array): string => new TextDecoder().decode(payload)

  test('delivers every message once and in order across cut connections', async () => {
    const session = await remote.client.sessions.create()
    const engine = connect({ baseUrl: url, token: 'ann-token' })
    const messages = engine.sessions.open(session.id).then(({ bus }) => bus.subscribe({ topics: ['t'] }))
    const subscription = await messages
    await subscription.opened
    const count = 150
    const publishing = (async () => {
      for (let i = 0; i < count; i++) {
        await session.bus.publish({ topic: 'other', payload: 'x' })
        await session.bus.publish({ topic: 't', payload: `${i} ${'.'.repeat(random(3000))}` })
        if (random(10) === 0) proxy.cut()
      }
    })()
    const given: number[] = []
    for await (const { payload } of subscription) {
      given.push(Number.parseInt(text(payload), 10))
      if (random(20) === 0) proxy.cut()
      if (given.length === count) break
    }
    await publishing
    expect(proxy.connections).toBeGreaterThan(5)
    expect(given).toEqual(Array.from({ length: count }, (_, i) => i))
    await engine.close()
  })

  test('that was cut before its first message misses nothing for any replay', async () => {
    const session = await remote.client.sessions.create()
    const { id: first } = { id: '00000001' }
    for (const payload of ['1', '2', '3']) await session.bus.publish({ topic: 't', payload })
    const engine = connect({ baseUrl: url, token: 'ann-token' })
    const { bus } = await engine.sessions.open(session.id)
    const requests = [
      {},
      { replayLimit: 1 },
      { replayAfterMessageId: first, replayLimit: 1 },
      { replayAfterMessageId: first },
    ]
    const expected = ['4,5', '3,4,5', '3,4,5', '2,3,4,5']
    const subscriptions = requests.map((request) => bus.subscribe(request))
    await Promise.all(subscriptions.map(({ opened }) => opened))
    expect(await Promise.all(subscriptions.map(({ startsAfter }) => startsAfter))).toEqual([
      '00000003',
      '00000002',
      '00000002',
      '00000001',
    ])
    proxy.refusing = true
    proxy.cut()
    for (const payload of ['4', '5']) await session.bus.publish({ topic: 't', payload })
    proxy.refusing = false
    const given = subscriptions.map(async (subscription) => {
      const texts: string[] = []
      for await (const { payload } of subscription) {
        texts.push(text(payload))
        if (texts.at(-1) === '5') break
      }
      return texts.join(',')
    })
    expect(await Promise.all(given)).toEqual(expected)
    await engine.close()
  })

  test('fails when its server stays unreachable', async () => {
    const session = await remote.client.sessions.create()
    const engine = connect({ baseUrl: url, token: 'ann-token', reconnectMs: 300 })
    const subscription = (await engine.sessions.open(session.id)).bus.subscribe()
    await subscription.opened
    proxy.refusing = true
    proxy.cut()
    await expect(subscription.next()).rejects.toMatchObject({ reason: 'REMOTE_FAILED' })
    expect(await subscription.next()).toEqual({ done: true, value: undefined })
    proxy.refusing = false
    await engine.close()
  })

  test('rejects invalid requests, and ends with its session and its client', async () => {
    const session = await remote.client.sessions.create()
    for (const request of [{ topics: [''] }, { replayAfterMessageId: '?' }, { topics: 5 as unknown as [] }]) {
      const wrong = session.bus.subscribe(request)
      await expect(wrong.opened).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
      await expect(wrong.next()).rejects.toMatchObject({ reason: 'INVALID_ARGUMENT' })
      expect((await wrong.next()).done).toBe(true)
    }
    const engine = remote.connect()
    const { bus } = await engine.sessions.open(session.id)
    const [ofClient, ofSession] = [bus.subscribe(), session.bus.subscribe()]
    await Promise.all([ofClient.opened, ofSession.opened])
    await engine.close()
    expect((await ofClient.next()).done).toBe(true)
    await session.delete()
    expect((await ofSession.next()).done).toBe(true)
    await expect(session.bus.subscribe().next()).rejects.toMatchObject({ reason: 'SESSION_NOT_FOUND' })
  })

  test.runIf(isLong)('that is too slow fails with SLOW_CONSUMER', async () => {
    const session = await remote.client.sessions.create()
    const slow = session.bus.subscribe()
    await slow.opened
    const payload = new Uint8Array(2 ** 20)
    for (let i = 0; i < 48; i++) await session.bus.publish({ topic: 't', payload })
    const all = (async () => {
      let count = 0
      for await (const message of slow) count += message.payload.length > 0 ? 1 : 0
      return count
    })()
    await expect(all).rejects.toMatchObject({ code: 'RESOURCE_EXHAUSTED', reason: 'SLOW_CONSUMER' })
  })

  test('continues after its server was restarted', async () => {
    const handler = createHttpHandler(remote.engine, {
      authenticate: staticTokens({ 'ann-token': { tenant: 'acme', principal: 'ann' } }),
    })
    const start = async (port: number): Promise<Server> => {
      const server = createServer(toNodeHandler(handler))
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      return server
    }
    let server = await start(0)
    const { port } = server.address() as AddressInfo
    const engine = connect({ baseUrl: `http://127.0.0.1:${port}`, token: 'ann-token' })
    const session = await engine.sessions.create()
    const subscription = session.bus.subscribe()
    await subscription.opened
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    const there = await remote.client.sessions.open(session.id)
    await there.bus.publish({ topic: 't', payload: 'meanwhile' })
    server = await start(port)
    const { value } = await subscription.next()
    expect(text(value!.payload)).toBe('meanwhile')
    expect(value).not.toBeInstanceOf(EngineError)
    await engine.close()
    server.closeAllConnections()
    server.close()
  })

  test('continues after the engine of its server was replaced', async () => {
    const handler = createHttpHandler(remote.engine, {
      authenticate: staticTokens({ 'ann-token': { tenant: 'acme', principal: 'ann' } }),
    })
    let isClosed = false
    let refusals = 0
    const served = toNodeHandler(handler)
    const server = createServer((request, response) => {
      if (!isClosed) {
        served(request, response)
        return
      }
      refusals++
      isClosed = refusals < 3
      const details = [{ reason: 'STORE_CLOSED' }]
      response.writeHead(503).end(JSON.stringify({ code: 14, message: 'the engine is closed', details }))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const engine = connect({ baseUrl: `http://127.0.0.1:${port}`, token: 'ann-token' })
    const session = await engine.sessions.create()
    const subscription = session.bus.subscribe()
    await subscription.opened
    isClosed = true
    server.closeAllConnections()
    await (await remote.client.sessions.open(session.id)).bus.publish({ topic: 't', payload: 'meanwhile' })
    const { value } = await subscription.next()
    expect(text(value!.payload)).toBe('meanwhile')
    expect(refusals).toBe(3)
    await engine.close()
    server.closeAllConnections()
    server.close()
  })
})
