/** Requests of git clients to fetch. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { readRequestV0, readRequestV2 } from '../../src/adapters/git-server/fetch-request.js'

const packet = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text
const wants = packet(`want ${'a'.repeat(40)}\n`).repeat(4000)

async function* bodyOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

test.each([
  ['0', readRequestV0, `${wants}0000${packet('done\n')}`],
  ['2', readRequestV2, `${packet('command=fetch\n')}0001${wants}0000`],
] as const)('long requests of version %s leave the event loop free', async (_, read, text) => {
  let left = 50
  const reads = Array.from({ length: left }, async () => {
    await read(bodyOf(text), 'sha1', performance)
    left--
  })
  await nextTurn()
  expect(left).toBeGreaterThan(25)
  await Promise.all(reads)
})
