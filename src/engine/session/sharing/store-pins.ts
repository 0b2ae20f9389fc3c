import { isCount, isListOf, isOptional, isText, isTupleOf, isWith } from '../../base/checks.js'
import { EngineError } from '../../base/errors.js'
import { limits } from '../../base/limits.js'
import type { StoredKind } from '../../tree/references.js'

/** Objects that an engine protects from the collection of another one. An absent field protects nothing. */
export interface StorePin {
  /** Stored nodes, with everything below them. */
  readonly nodes?: readonly (readonly [address: string, kind: StoredKind])[]
  readonly blobs?: readonly string[]
  /** Nodes and blobs that were written in this epoch or a later one. */
  readonly writesSince?: number
  /** Sessions whose history is kept as it is, even if they are deleted. */
  readonly sessions?: readonly string[]
}

/** The pins as texts of bounded size. */
export function encodePins(pins: readonly StorePin[]): string[] {
  return pins.flatMap(({ nodes = [], blobs = [], sessions = [], writesSince }) => [
    ...(writesSince === undefined ? [] : [JSON.stringify({ writesSince })]),
    ...parts(nodes).map((part) => JSON.stringify({ nodes: part })),
    ...parts(blobs).map((part) => JSON.stringify({ blobs: part })),
    ...parts(sessions).map((part) => JSON.stringify({ sessions: part })),
  ])
}

const isPin = isWith<StorePin>({
  nodes: isOptional(isListOf(isTupleOf(isText, isText))),
  blobs: isOptional(isListOf(isText)),
  writesSince: isOptional(isCount),
  sessions: isOptional(isListOf(isText)),
})

export function parsePin(text: string): StorePin {
  const pin: unknown = JSON.parse(text)
  if (!isPin(pin)) throw new EngineError('DATA_LOSS', 'a stored pin of an engine is damaged')
  return pin
}

function parts<T>(items: readonly T[]): T[][] {
  const found: T[][] = []
  for (let from = 0; from < items.length; from += limits.namesPerPin)
    found.push(items.slice(from, from + limits.namesPerPin))
  return found
}
