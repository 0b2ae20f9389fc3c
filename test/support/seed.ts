import { env, stdout } from 'node:process'

/** The seed of all random tests: FORKSPACE_SEED, or a fixed default. Printed as FORKSPACE_SEED. */
export const seed: number = readSeed(env['FORKSPACE_SEED'])

const givenSize = env['FORKSPACE_TEST_SIZE'] ?? ''

/** Whether these are the long forms of the tests, which also include those with the largest inputs. */
export const isLong: boolean = givenSize !== ''

/** The share of random runs to execute; 1 in `npm run test:long`. */
export const size: number = isLong ? Number(givenSize) : 0.03

/** Whether every case runs, as in `npm run test:long`. CI runs the long forms with fewer rounds, and without these. */
export const isComplete: boolean = size >= 1

/** The runs of a random test that has `count` runs in `npm run test:long`. */
export function runs(count: number): number {
  return Math.ceil(count * size)
}

/** The step of a loop that visits every point in `npm run test:long` and every `sparse`-th point in `npm test`. */
export function stepOf(sparse: number): number {
  return size < 1 ? sparse : 1
}

stdout.write(`FORKSPACE_SEED=${seed}\n`)

function readSeed(text: string | undefined): number {
  const value = text === undefined ? 1 : text.trim() === '' ? NaN : Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new Error(`FORKSPACE_SEED is "${text}". Set it to a whole number from 0 on, or leave it out.`)
}
