import { commonErrors, operations, type Operation, type OperationName } from '../../src/engine/contract.js'
import { errorRegistry, type ErrorReason } from '../../src/engine/index.js'
import { statusOfReason, type HttpReason } from '../../src/adapters/http/http-error.js'
import { reasonMeanings } from './texts.js'
import { takesBody } from '../../src/adapters/http/operations/operation-io.js'

type Reason = ErrorReason | HttpReason

/** The reasons that any request can return. */
const always: readonly Reason[] = [
  ...commonErrors,
  'DEADLINE_EXCEEDED',
  'HEADERS_TOO_LARGE',
  'HOST_NOT_ALLOWED',
  'ORIGIN_NOT_ALLOWED',
  'QUOTA',
  'REQUEST_TIMEOUT',
  'UNAUTHENTICATED',
  'UNAVAILABLE',
]

const ofBodies: readonly Reason[] = ['BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE']

const ofWaits: readonly Reason[] = ['LOCK_TIMEOUT']

const waiting: readonly OperationName[] = ['setPosixLockBlocking', 'flock']

/** The possible reasons of each HTTP status of an operation, sorted. */
export function reasonsOf(name: OperationName): ReadonlyMap<number, readonly string[]> {
  const operation: Operation = operations[name]
  return byStatus([
    ...always,
    ...operation.errors,
    ...(takesBody(operation) ? ofBodies : []),
    ...(waiting.includes(name) ? ofWaits : []),
  ])
}

/** The reasons of any operation with a body. */
export function usualReasons(): ReadonlyMap<number, readonly string[]> {
  return byStatus([...always, ...ofBodies])
}

/** Every reason that the service can return, with its status and meaning. */
export function reasonTable(): Readonly<Record<string, object>> {
  const named = Object.values<Operation>(operations).flatMap(({ errors }) => errors)
  const routing: Reason[] = ['METHOD_NOT_ALLOWED', 'ROUTE_NOT_FOUND']
  const reasons = [...new Set<Reason>([...always, ...ofBodies, ...ofWaits, ...routing, ...named])].sort()
  return Object.fromEntries(
    reasons.map((reason) => {
      const { http, code } = statusOfReason(reason)
      return [reason, { httpStatus: http, code, meaning: meaningOf(reason) }]
    }),
  )
}

function meaningOf(reason: Reason): string {
  if (Object.hasOwn(reasonMeanings, reason)) return reasonMeanings[reason as HttpReason]
  // The registry describes the details of the library's errors.
  return errorRegistry[reason as ErrorReason].meaning.replaceAll('`details.', '`')
}

function byStatus(reasons: readonly Reason[]): ReadonlyMap<number, readonly string[]> {
  const statuses = new Map<number, string[]>()
  for (const reason of [...new Set(reasons)].sort()) {
    const { http } = statusOfReason(reason)
    const known = statuses.get(http)
    if (known === undefined) statuses.set(http, [reason])
    else known.push(reason)
  }
  return new Map([...statuses].sort(([a], [b]) => a - b))
}
