/** Groups of changes over HTTP. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RemoteSession } from '../../src/adapters/client/index.js'
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
