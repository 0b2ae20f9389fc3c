import { contents, projectPaths } from '../../support/project-files.js'
import {
  isPending,
  type Capability,
  type Files,
  type Guarantee,
  type Pending,
  type Store,
  type Workspace,
} from '../contender.js'

/** The sizes of one run. */
export interface Plan {
  /** Operations in one round. */
  readonly count: number
  /** Files in a large tree. */
  readonly files: number
  /** Bytes of a large file. */
  readonly largeBytes: number
  readonly sessions: number
  /** Between the cold round and the warm ones, unmeasured rounds do this many operations or take this long. */
  readonly warmUp: { readonly operations: number; readonly ms: number }
  /** How often each contender is measured after that. */
  readonly rounds: number
  /** Each of these measurements repeats short rounds for about so many milliseconds. */
  readonly leastMs: number
  /** A round ends after about this many milliseconds, also if it has done fewer operations. */
  readonly roundMs: number
}

export interface Scenario {
  readonly name: string
  title(plan: Plan): string
  readonly needs: readonly Capability[]
  /** Only contenders with one of these guarantees; all by default. */
  readonly guarantees?: readonly Guarantee[]
  /** The memory of one file instead of the time of an operation. It has a single round. */
  readonly unit?: 'bytes'
  /** Another process fills the store and ends before this one starts. It returns the name of its workspace. */
  fill?(stage: Stage): Promise<string>
  /** Prepares everything that all rounds share. */
  start(stage: Stage): Promise<Act>
}

export interface Stage {
  readonly plan: Plan
  /** Whether the contender is a limit. */
  readonly limit: boolean
  /** Opens the store. Later calls return the same one. */
  readonly store: () => Promise<Store>
  /** Opens the store, which no other call has open. */
  readonly reopen: () => Promise<Store>
  /** The workspace from `fill`. */
  readonly filled?: string
}

/** One scenario of one contender, in a process of its own. */
export interface Act {
  /** Prepares a round. This time is not measured. */
  prepare?(round: number): Promise<unknown>
  /** Runs a round and returns the number of operations, or of bytes. */
  run(round: number): Promise<number>
  /** Checks the results after the last round, and returns a list of problems. */
  check(): Promise<string[]>
}

export const fileBytes = 1024

/** Runs an operation for each number, one after the other, until the time of the round is over. */
export async function repeat(
  { roundMs }: Plan,
  count: number,
  operation: (number: number) => Pending<unknown>,
): Promise<number> {
  const end = performance.now() + roundMs
  // Reads the clock rarely between fast operations, because this time is part of the figures.
  let stride = 1
  let look = 1
  let looked = performance.now()
  for (let number = 0; number < count; number++) {
    const pending = operation(number)
    if (isPending(pending)) await pending
    if (number < look) continue
    const now = performance.now()
    if (now > end) return number + 1
    stride = now - looked < roundMs / 50 ? stride * 2 : Math.max(1, stride >> 1)
    looked = now
    look = number + stride
  }
  return count
}

/** Files of 1 KiB in nested directories. Equal arguments give equal files. */
export function sampleFiles(count: number, seed = 1): Files {
  const bodies = contents(count, fileBytes, seed)
  return projectPaths(count).map((path, index) => [path, bodies[index]!] as const)
}

export async function createFilled(store: Store, files: Files): Promise<Workspace> {
  const workspace = await store.create()
  await fill(workspace, files)
  return workspace
}

export async function fill(workspace: Workspace, files: Files): Promise<void> {
  if (workspace.fill !== undefined) return void (await workspace.fill(files))
  await makeDirectories(workspace, files)
  await writeAll(workspace, files)
}

export async function writeAll(workspace: Workspace, files: Files): Promise<void> {
  for (const [path, content] of files) await workspace.write!(path, content)
}

export async function makeDirectories(workspace: Workspace, files: Files): Promise<void> {
  if (workspace.mkdir === undefined) return
  for (const directory of new Set(files.map(([path]) => path.slice(0, path.lastIndexOf('/')))))
    await workspace.mkdir(directory)
}

/** Reads all files back and returns what is wrong. */
export async function compare(workspace: Workspace, files: Files, where = ''): Promise<string[]> {
  let wrong = 0
  for (const [path, content] of files) if (!(await holds(workspace, path, content))) wrong++
  return wrong === 0 ? [] : [`wrong: ${wrong} of ${files.length} files differ${where}`]
}

export async function holds(workspace: Workspace, path: string, content: Uint8Array): Promise<boolean> {
  const found = await read(workspace, path)
  return found !== undefined && Buffer.compare(found, content) === 0
}

/** Returns undefined for a missing file. */
export async function read(workspace: Workspace, path: string): Promise<Uint8Array | undefined> {
  try {
    return await workspace.read!(path)
  } catch {
    return undefined
  }
}
