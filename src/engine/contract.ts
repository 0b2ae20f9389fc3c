/**
 * The entry point of the contract for adapters: every operation with its route, its schemas and its method. It loads
 * zod; the engine itself does not.
 */
export { commonErrors, operations, tags, type Operation, type OperationName } from './operations/index.js'
export { contentRoutes, type ContentRoute, type ContentRouteName } from './operations/content-routes.js'
export { openContent, receiveContent, type ReceivingRoute } from './facade/content-calls.js'
export { contentSchemas, type ContentParameters } from './operations/schemas/content.js'
export { withMarks } from './facade/engine.js'
export { openRepository } from './facade/repository-calls.js'
export type { SessionRepository } from './facade/repository.js'
export {
  callOperation,
  isStreamOperation,
  openStream,
  type CallableOperation,
  type StreamOperation,
} from './facade/call.js'
export { schemas, type OperationRequest, type OperationResponse } from './operations/schemas/index.js'
export { issueText } from './operations/schemas/issue-text.js'
export { statusSchema } from './operations/schemas/status.js'
export { inBytes, wireJsonSchema, wireJsonSchemaByNames } from './operations/schemas/wire-types.js'
