import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { packet } from '../../src/adapters/git/remote/pkt-line.js'
import { push } from '../../src/adapters/git/remote/receive-pack.js'
import { Authentication } from '../../src/adapters/git/remote/authentication.js'
import { HttpClient } from '../../src/adapters/git/remote/http-client.js'
import { connect, type SmartConnection } from '../../src/adapters/git/remote/smart-connection.js'
import { fetchPack, listRefs } from '../../src/adapters/git/remote/upload-pack.js'
import { failure } from '../support/git-harness.js'

// Lower bounds save time. Tests of other files use the same limits.
const { refsBytes, capabilityBytes, reportBytes } = gitLimits
beforeAll(() => {
  Object.assign(gitLimits, { refsBytes: 2 ** 20, capabilityBytes: 2 ** 16, reportBytes: 2 ** 16 })
})
afterAll(() => {
  Object.assign(gitLimits, { refsBytes, capabilityBytes, reportBytes })
})

const oid = 'a'.repeat(40)

/** A remote that answers each request with one piece and then repeats another endlessly. */
function remote(version: 1 | 2, first: string, again: string): SmartConnection {
  const piece = Buffer.from(again.repeat(Math.ceil(2 ** 20 / again.length)))
  return {
    advertisement:
      version === 2
        ? { version, format: 'sha1', capabilities: new Map() }
        : {
            version,
            format: 'sha1',
            capabilities: new Set(['side-band-64k', 'report-status']),
            refs: new Map(),
            symrefs: new Map(),
          },
    post: () =>
      Promise.resolve(
        (async function* () {
          yield Buffer.from(first)
          for (;;) {
            await Promise.resolve()
            yield piece
          }
        })(),
      ),
  }
}

async function fetched(connection: SmartConnection): Promise<number> {
  let bytes = 0
  const request = { want: oid, haves: [], onBytes: (count: number) => (bytes += count) }
  for await (const _ of fetchPack(connection, request)) if (bytes > gitLimits.refsBytes) return bytes
  return bytes
}

const band = (number: number, text: string): string => packet(String.fromCharCode(number) + text).toString()
const packfile = packet('packfile\n').toString()

const pushTo = (connection: SmartConnection): Promise<void> =>
  push(() => Promise.resolve(connection), {
    ref: 'refs/heads/main',
    expectedOid: null,
    newOid: oid,
    pack: { parts: [] } as never,
    signal: new AbortController().signal,
  })

describe('rejects endless data from a remote:', () => {
  test.each<[string, SmartConnection]>([
    ['sections before the pack', remote(2, '', packet(`shallow ${oid}\n`).toString())],
    ['delimiters before the pack', remote(2, '', '0001')],
    ['progress', remote(2, packfile, band(2, 'Counting objects\r'))],
    ['keepalives', remote(2, packfile, band(1, ''))],
    ['delimiters in the pack', remote(2, packfile, '0001')],
    ['unknown bands', remote(2, packfile, band(9, 'x'))],
    ['a list of shallow commits, in protocol 1', remote(1, '', packet(`shallow ${oid}\n`).toString())],
    ['progress, in protocol 1', remote(1, packet('NAK\n').toString(), band(2, 'x'))],
  ])('%s', async (_what, connection) => {
    expect(await failure(fetched(connection))).toMatchObject({
      reason: 'GIT_TOO_LARGE',
      details: { limit: String(gitLimits.refsBytes) },
    })
  })

  test('refs', async () => {
    let bytes = 0
    const connection = remote(2, '', packet(`${oid} refs/heads/main\n`).toString())
    const listing = listRefs(connection, [], (count) => (bytes += count))
    expect((await failure(listing)).reason).toBe('GIT_TOO_LARGE')
    expect(bytes).toBeGreaterThan(gitLimits.refsBytes / 2)
  })

  test('a report of a push', async () => {
    const connection = remote(1, '', band(1, packet('ok refs/heads/main\n').toString()))
    expect(await failure(pushTo(connection))).toMatchObject({
      reason: 'GIT_PUSH_REJECTED',
      details: { reason: 'the report of the remote is too long' },
    })
  })

  test.each([
    ['progress', band(2, 'Checking connectivity\r')],
    ['keepalives', band(1, '')],
    ['flush packets', '0000'],
  ])('%s in place of a report of a push', async (_what, again) => {
    expect(await failure(pushTo(remote(1, '', again)))).toMatchObject({
      reason: 'GIT_TOO_LARGE',
      details: { limit: String(gitLimits.refsBytes) },
    })
  })
})

test.each([
  ['of no branch', ''],
  ['of another branch', packet('ok refs/heads/other\n').toString()],
])('rejects a report %s on a push', async (_what, lines) => {
  const report = band(1, `${packet('unpack ok\n').toString()}${lines}0000`)
  const connection = {
    ...remote(1, '', 'x'),
    post: async function* () {
      yield Buffer.from(report)
    },
  }
  expect(await failure(pushTo(connection as never))).toMatchObject({
    reason: 'GIT_PUSH_REJECTED',
    details: { reason: 'the remote gave no report on the branch' },
  })
})

test('does not count pack data against the limit of other data', async () => {
  const connection = remote(2, packfile, band(1, 'x'.repeat(60_000)))
  expect(await fetched(connection)).toBeGreaterThan(gitLimits.refsBytes)
})

/** Discovers a remote that announces itself with this text. */
async function discovered(text: string): Promise<SmartConnection> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/x-git-upload-pack-advertisement').end(text)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const http = new HttpClient({ allowPrivateAddresses: true, idleTimeoutMs: 60_000 })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/r.git`
  try {
    return await connect({
      url,
      http,
      service: 'git-upload-pack',
      authentication: new Authentication({ remoteUrl: url, credentialsSecretId: '' }, undefined),
      signal: new AbortController().signal,
    })
  } finally {
    http.close()
    server.close()
  }
}

const service = `${packet('# service=git-upload-pack\n').toString()}0000`

test.each([
  ['flush packets', `${service}${'0000'.repeat(100_000)}`],
  ['empty packets', `${service}${packet('version 2\n').toString()}${'0004'.repeat(2000)}0000`],
])('rejects a remote that announces itself with very many %s', async (_what, text) => {
  expect((await failure(discovered(text))).reason).toBe('GIT_TOO_LARGE')
})

test.each([
  ['a malformed packet', 'zzzz'],
  ['an incomplete packet', 'ffff'],
  ['a malformed packet after a flush', '0000000g'],
])('rejects a list of refs with %s', async (_what, damage) => {
  const first = packet(`${oid} HEAD\0 shallow\n`).toString()
  const rest = packet(`${oid} refs/heads/main\n`).toString()
  expect((await discovered(`${service}${first}${rest}0000`)).advertisement).toMatchObject({ version: 1 })
  expect((await failure(discovered(`${service}${first}${damage}${rest}0000`))).reason).toBe('GIT_CORRUPT')
})
