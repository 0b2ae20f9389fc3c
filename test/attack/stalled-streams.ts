import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'

/** Yields the content of an upload up to a point and then never ends. */
export type StalledStream = (content: Uint8Array) => AsyncIterable<Uint8Array>

const never = new Promise<never>(() => undefined)

/** Yields the first half, then the results of `next` forever. */
function then(next: () => Promise<IteratorResult<Uint8Array, undefined>>, more: object = {}): StalledStream {
  return (content) => {
    const first = content.subarray(0, content.length >> 1)
    let given = false
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          if (given) return next()
          given = true
          return Promise.resolve({ done: false as const, value: first })
        },
        ...more,
      }),
    }
  }
}

const piece = (length: number): IteratorResult<Uint8Array, undefined> => ({
  done: false,
  value: new Uint8Array(length),
})

export const stalledStreams: Readonly<Record<string, StalledStream>> = {
  'nothing at all': () => ({ [Symbol.asyncIterator]: () => ({ next: () => never }) }),
  'half, then nothing': then(() => never),
  'half, then nothing, and no return': then(() => never, { return: () => never }),
  'half, then nothing, and a return that throws': then(() => never, {
    return: () => {
      throw new Error('no')
    },
  }),
  'half, then empty pieces at once': then(() => Promise.resolve(piece(0))),
  'half, then empty pieces at times': then(() => pause(2, piece(0))),
  'half, then a byte at times': then(() => pause(20, piece(1))),
  'a generator that waits': async function* (content) {
    yield content.subarray(0, content.length >> 1)
    await never
  },
  'a stream that gives nothing more': (content) => {
    const stream = new Readable({ read: () => undefined })
    stream.push(content.subarray(0, content.length >> 1))
    return stream
  },
  'a stream that is not destroyed': (content) => {
    const stream = new Readable({ read: () => undefined })
    stream.push(content.subarray(0, content.length >> 1))
    stream.destroy = () => stream
    return stream
  },
  'a web stream': (content) =>
    new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(content.subarray(0, content.length >> 1)),
      cancel: () => never,
    }),
}
