import type * as z from 'zod'
import type { OperationName } from '../index.js'
import { busSchemas } from './bus.js'
import { cacheSchemas } from './cache.js'
import { fileSchemas } from './files.js'
import { historySchemas } from './history.js'
import { lockSchemas } from './locks.js'
import { mergeSchemas } from './merges.js'
import type { OperationSchemas } from './operation-schemas.js'
import { reviewSchemas } from './review.js'
import { secretSchemas } from './secrets.js'
import { sessionSchemas } from './sessions.js'
import { sourceSchemas } from './sources.js'
import { textSchemas } from './text.js'
import { visibilitySchemas } from './visibility.js'

/**
 * The schemas of every operation. The engine imports only types from here, so that it does not load zod.
 * Unknown fields are ignored, except in the operations of a batch and in chunks. Every field of a response is
 * always present, except `conflict` of getPosixLock.
 */
export const schemas = {
  ...sessionSchemas,
  ...historySchemas,
  ...mergeSchemas,
  ...fileSchemas,
  ...textSchemas,
  ...lockSchemas,
  ...reviewSchemas,
  ...cacheSchemas,
  ...busSchemas,
  ...visibilitySchemas,
  ...secretSchemas,
  ...sourceSchemas,
} satisfies Readonly<Record<OperationName, OperationSchemas>>

/** The request of an operation in its native form. */
export type OperationRequest<Name extends OperationName> = z.output<(typeof schemas)[Name]['request']>

/** The response of an operation in its native form. */
export type OperationResponse<Name extends OperationName> = z.output<(typeof schemas)[Name]['response']>
