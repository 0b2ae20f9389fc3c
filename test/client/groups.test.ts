/** Groups of changes over HTTP. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RemoteSession } from '../../src/adapters/client/index.js'
import type { JsonObject } from '../../src/index.js'
import { openRemote, type Remote } from '../support/remote.js'

describe('a group over HTTP', () => {
  let remote: Remote
  let session: RemoteSession

  beforeAll(async () => {
    remote = await openRemote()
  })
  afterAll(() => remote.close())
  beforeEach(async () => {
    session = await remote.client.sessions.create({ files: { '/a': '1' } })
  })

  const groups = async (): Promise<unknown[]> => {
    const all: unknown[] = []
    for await (const { details } of session.events) all.push(details['group'])
    return all
  }

  test('has every change of its handle, and is undone together', async () => {
    const turn = session.group('turn 7 – “é%”')
    await turn.files.write({ path: '/a', content: '2' })
    await turn.fs.promises.writeFile('/b', 'x')
    // More than 8 MiB is sent through the content route.
    await turn.files.write({ path: '/large', content: new Uint8Array(9 * 2 ** 20) })
    await session.files.write({ path: '/c', content: 'other' })
    expect((await groups()).slice(-4)).toEqual([...Array<string>(3).fill('turn 7 – “é%”'), undefined])
    await session.undo()
    expect(await session.undo({ by: 'group' })).toMatchObject({ count: 3 })
    expect(await session.fs.promises.readdir('/')).toEqual(['a'])
    expect(await session.fs.promises.readFile('/a', 'utf8')).toBe('1')
  })

  test('carries the metadata of its handle', async () => {
    const metadata = { callId: 'call “7”', steps: [1, { deep: null }], ['__proto__']: 'x' }
    const call = session.group('turn 7').withMetadata(metadata)
    await call.files.write({ path: '/a', content: '2' })
    await session.files.write({ path: '/a', content: '3' })
    const { events } = await session.events.list()
    expect(events.slice(-2).map(({ details }) => [details['group'], details['metadata']])).toEqual([
      ['turn 7', JSON.parse(JSON.stringify(metadata))],
      [undefined, undefined],
    ])
    // 4,096 bytes of JSON that a header has as 12,270 bytes.
    const longest = { text: '"'.repeat(2042) + 'x' }
    expect(JSON.stringify(longest)).toHaveLength(4096)
    await session.withMetadata(longest).files.write({ path: '/a', content: '4' })
    const stored = (await session.events.list()).events.at(-1)?.details['metadata']
    expect(stored).toEqual(longest)
  })

  test('refuses metadata that is no object of JSON, or too large', async () => {
    const refusal = async (metadata: unknown): Promise<unknown> => {
      try {
        return await session.withMetadata(metadata as JsonObject).files.write({ path: '/a', content: '2' })
      } catch (error) {
        return (error as { readonly reason: string }).reason
      }
    }
    for (const metadata of [null, 'x', [], { a: 1n }, { a: '\ud800' }])
      expect([metadata, await refusal(metadata)]).toEqual([metadata, 'INVALID_ARGUMENT'])
    expect(await refusal({ a: 'x'.repeat(4096) })).toBe('TOO_LARGE')
    const headers = { authorization: 'Bearer ann-token', 'content-type': 'application/json' }
    const url = `http://127.0.0.1:${remote.server.port}/v1/sessions/${session.id}:writeFile`
    const body = JSON.stringify({ path: '/a', content: 'Mg==' })
    for (const text of ['%', '%5B', '%5B%5D', 'null', '5', '']) {
      const response = await fetch(url, {
        method: 'POST',
        headers: { ...headers, 'forkspace-metadata': text },
        body,
      })
      expect([text, response.status, await response.text()]).toEqual([
        text,
        400,
        expect.stringMatching(/metadata/),
      ])
    }
  })

  test('needs a name', async () => {
    const refusal = (name: unknown): unknown => {
      try {
        return session.group(name as string)
      } catch (error) {
        return (error as { readonly reason: string }).reason
      }
    }
    for (const name of ['', 5, undefined, '\ud800']) expect(refusal(name)).toBe('INVALID_ARGUMENT')
    const written = session.group('x'.repeat(1025)).files.write({ path: '/a', content: '2' })
    await expect(written).rejects.toMatchObject({ reason: 'TOO_LARGE' })
  })

  test('needs a header of percent-encoded UTF-8, once', async () => {
    const statusOf = async (...names: string[]): Promise<[number, string]> => {
      const headers = new Headers({ authorization: 'Bearer ann-token', 'content-type': 'application/json' })
      for (const name of names) headers.append('forkspace-group', name)
      const url = `http://127.0.0.1:${remote.server.port}/v1/sessions/${session.id}:writeFile`
      const body = JSON.stringify({ path: '/a', content: 'Mg==' })
      const response = await fetch(url, { method: 'POST', headers, body })
      return [response.status, await response.text()]
    }
    for (const name of ['%', '%ff', '%ed%a0%80', '', 'x'.repeat(1025)]) {
      expect(await statusOf(name)).toEqual([400, expect.stringMatching(/group/)])
    }
    expect((await statusOf('plain'))[0]).toBe(200)
    expect((await groups()).at(-1)).toBe('plain')
  })
})
