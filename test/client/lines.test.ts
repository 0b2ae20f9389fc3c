import { expect, test } from 'vitest'
import { Deadline } from '../../src/adapters/client/deadline.js'
import { readLines } from '../../src/adapters/client/lines.js'

let cancelled = 0

function bodyOf(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const left = [...pieces]
  return new ReadableStream({
    pull(controller) {
      const piece = left.shift()
      if (piece === undefined) controller.close()
      else controller.enqueue(piece)
    },
    cancel() {
      cancelled++
    },
  })
}

async function linesOf(text: string, size: number): Promise<string[]> {
  const bytes = Buffer.from(text)
  const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )
  const lines: string[] = []
  for await (const line of readLines(bodyOf(pieces))) lines.push(line)
  return lines
}

test('lines are complete wherever their bytes are split', async () => {
  for (const size of [1, 2, 3, 5, 100])
    expect([size, await linesOf('é one\n\n\u{1f600}\r\nthree\n', size)]).toEqual([
      size,
      ['é one', '\u{1f600}', 'three'],
    ])
})

test('a body that ends within a line is a failure', async () => {
  for (const size of [1, 100])
    await expect(linesOf('one\ntw', size)).rejects.toThrow('the stream ends within a line')
  expect(await linesOf('one\n \n ', 100)).toEqual(['one'])
})

test('leaving the lines of a body cancels it', async () => {
  for await (const line of readLines(bodyOf([Buffer.from('one\n'), Buffer.from('two\n')]))) {
    expect(line).toBe('one')
    break
  }
  expect(cancelled).toBe(1)
})

test('a deadline that has ended listens to no signal and never aborts', async () => {
  const abort = new AbortController()
  const deadline = new Deadline([abort.signal], 20)
  deadline.end()
  abort.abort(new Error('later'))
  await new Promise((resolve) => void setTimeout(resolve, 50))
  expect(deadline.signal.aborted).toBe(false)
})
