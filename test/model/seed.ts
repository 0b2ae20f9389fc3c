import { env, stdout } from 'node:process'

/** Of this run: FORKSPACE_SEED, or another one every time. Printed, so that a failure can be had again. */
export const seed: number = Number(env['FORKSPACE_SEED'] ?? Date.now() % 2 ** 31)

/** FORKSPACE_MODEL_RUNS times as much as by default. */
export const size: number = Number(env['FORKSPACE_MODEL_RUNS'] ?? 1)

stdout.write(`FORKSPACE_SEED=${seed}\n`)
