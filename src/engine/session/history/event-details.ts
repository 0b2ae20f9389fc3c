import { capabilities, type Capability } from '../../operations/operation.js'
import type { SessionAccess } from '../access/session-access.js'
import type { EventType } from '../../records/event.js'

type ServiceOf<Type> = Type extends `v1.${infer Service}.${string}` ? Service : never

/**
 * The capabilities that a handle needs, in addition to `history`, to see the details of a service's events.
 */
const needed: Readonly<Record<ServiceOf<EventType>, readonly Capability[]>> = {
  SessionService: ['files.read'],
  PersistenceService: ['files.read'],
  FileSystemService: ['files.read'],
  AnnotationService: ['annotations', 'files.read'],
  OversightService: ['approvals'],
  CollaborationService: ['locks'],
  HealthService: ['health'],
  SecretsService: ['secrets'],
  UnderlaySourceService: ['sources'],
}

/** A handle that reads events. */
export type EventReader = Pick<SessionAccess, 'has' | 'allows'>

/** A copy of an event's details, without details that the reader may not see. */
export function detailsFor(reader: EventReader, type: EventType, details: object): Record<string, unknown> {
  if (!neededFor(type).every((one) => reader.has(one))) return {}
  const copy: Record<string, unknown> = { ...details }
  // A caller that has the id of a lock can release it.
  if (Object.hasOwn(copy, 'lockId') && !reader.allows('forceUnlockFile')) delete copy['lockId']
  // Details contain only strings, numbers, lists of strings, and metadata, which is frozen.
  for (const key in copy) if (Array.isArray(copy[key])) copy[key] = [...(copy[key] as unknown[])]
  return copy
}

/** An event from a bundle may belong to an unknown service. It then needs all capabilities. */
function neededFor(type: EventType): readonly Capability[] {
  const service = type.slice(type.indexOf('.') + 1, type.lastIndexOf('.'))
  return Object.hasOwn(needed, service) ? needed[service as ServiceOf<EventType>] : capabilities
}
