import { busOperations } from './bus.js'
import { cacheOperations } from './cache.js'
import { fileOperations } from './files.js'
import { historyOperations } from './history.js'
import { lockOperations } from './locks.js'
import { mergeOperations } from './merges.js'
import { nativeActions, type NativeAction } from './native.js'
import type { Capability, Condition, Needs, Operation } from './operation.js'
import { reviewOperations } from './review.js'
import { secretOperations } from './secrets.js'
import { sessionOperations } from './sessions.js'
import { sourceOperations } from './sources.js'
import { textOperations } from './text.js'
import { visibilityOperations } from './visibility.js'

const table = {
  ...sessionOperations,
  ...historyOperations,
  ...mergeOperations,
  ...fileOperations,
  ...textOperations,
  ...lockOperations,
  ...reviewOperations,
  ...cacheOperations,
  ...busOperations,
  ...visibilityOperations,
  ...secretOperations,
  ...sourceOperations,
}

/**
 * The name of an operation of the interface.
 *
 * @useDeclaredType
 */
export type OperationName = keyof typeof table

/** Every operation of the interface, by name: its route, capabilities, event and errors. */
export const operations: Readonly<Record<OperationName, Operation>> = table

/** `never` for an operation without a method; its `implementedBy` then has the general type. */
type MethodOf<Name extends OperationName> =
  Operation['implementedBy'] extends (typeof table)[Name]['implementedBy']
    ? never
    : NonNullable<(typeof table)[Name]['implementedBy']>

/** The method of each operation that has one: see {@link Operation.implementedBy}. */
export type OperationMethods = {
  readonly [Name in OperationName as [MethodOf<Name>] extends [never] ? never : Name]: MethodOf<Name>
}

export { commonErrors, type Operation } from './operation.js'
export { tags } from './tags.js'

/** The name of an action. `authorize` decides on actions, and diagnostics report them. */
export type Action = OperationName | NativeAction

/**
 * The capabilities that an action needs. They describe its effect, and several actions may have the same
 * effect. An `authorize` that decides by capabilities instead of action names therefore covers all of them.
 *
 * @example
 * const readOnly: Authorize = (_caller, action) => !capabilitiesOf(action).includes('files.write')
 */
export function capabilitiesOf(action: Action): readonly Capability[] {
  return needsOf(action).capabilities
}

/** The additional capabilities that an action needs when the request meets the condition. */
export function capabilitiesWhen(action: Action, condition: Condition): readonly Capability[] {
  return needsOf(action).when?.[condition] ?? []
}

function needsOf(action: Action): Needs {
  return Object.hasOwn(nativeActions, action)
    ? nativeActions[action as NativeAction]
    : operations[action as OperationName]
}
