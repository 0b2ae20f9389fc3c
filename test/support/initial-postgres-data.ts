import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryDirectory } from './temporary-directory.js'

/** The variable with the path of the data that each new PostgreSQL server copies. The first server makes them. */
export const initialDataVariable = 'FORKSPACE_TEST_POSTGRES_DATA'

/** Chooses a path for each run of the tests, and removes the data at its end. */
export default function setup(): () => void {
  const path = join(temporaryDirectory(), `pg-initial-${randomUUID()}`)
  process.env[initialDataVariable] = path
  return () => {
    rmSync(path, { recursive: true, force: true })
  }
}
