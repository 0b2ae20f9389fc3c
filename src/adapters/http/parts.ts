/** The parts of this server from which the git server and the inspector are made. */
export { bundledUrl } from './bundled-url.js'
export { failureOf, HttpError, isDefect } from './http-error.js'
export { contentBytes, type HttpLimits } from './limits.js'
export { parseBody } from './operations/decode.js'
export { Routes } from './operations/routes.js'
export { parseOptions, type HttpHandlerOptions } from './options.js'
export { callerOf, callerOfBasic } from './server/authenticate.js'
export { handleFetch } from './server/fetch-adapter.js'
export { checkSingle, hostGuard, originGuard } from './server/guards.js'
export {
  clientGone,
  type HttpRequest,
  type HttpResponse,
  type ResponseStream,
} from './server/http-messages.js'
export { register, type FetchHandler, type PathHandler } from './server/request-handler.js'
export { errorResponse, preflightResponse } from './server/responses.js'
export { Scopes } from './server/scopes.js'
export { createShared, Slot, type Shared } from './server/slot.js'
export { splitTarget } from './server/target.js'
export { Upload } from './server/upload.js'
