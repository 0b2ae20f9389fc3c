/**
 * The entry point for clients in another process: the table of operations with its schemas, and the errors. It
 * neither runs an engine nor needs Node, so it also works in browsers. It loads zod.
 */
export { EngineError, errorRegistry, invalid, type ErrorReason } from './base/errors.js'
export { onAbort } from './base/abort.js'
export { itemAt, present } from './base/present.js'
export { parseAtCall, Shape, unknownName, unreadable } from './base/shape.js'
export { operations, type Operation, type OperationMethods, type OperationName } from './operations/index.js'
export { contentRoutes, type ContentRouteName } from './operations/content-routes.js'
export { contentSchemas, type ContentParameters } from './operations/schemas/content.js'
export { schemas, type OperationRequest, type OperationResponse } from './operations/schemas/index.js'
export { issueText } from './operations/schemas/issue-text.js'
export { nothing } from './operations/schemas/wire-types.js'
export { statusSchema } from './operations/schemas/status.js'
export { Secret } from './services/secrets/secret.js'
export { abortError, codedError, throwIfAborted, typeError, valueError } from './fs/argument-errors.js'
export { constants } from './fs/constants.js'
export { toCopyOptions } from './fs/copy-options.js'
export { CopyWalk, runWalk, type CopyQuestion, type CopyStep } from './fs/copy-walk.js'
export { rmOfDirectory, systemError, toSystemError, type SystemCall } from './fs/errors.js'
export { toFlags, type Flags } from './fs/flags.js'
export { ancestor, givenPath, plainPath, resolvePath, slashed } from './fs/resolve-path.js'
export { BigIntStats, Dirent, newStats, Stats } from './fs/stats.js'
export {
  checkBoolean,
  checkSignal,
  toMode,
  toModeBits,
  toLength,
  toOwner,
  toRemoveOptions,
  toTime,
} from './fs/values.js'
