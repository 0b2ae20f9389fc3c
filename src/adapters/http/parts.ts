/** The parts of the server that other adapters build on. */
export { HttpError, isDefect } from './http-error.js'
export { Routes } from './operations/routes.js'
export { errorResponse } from './server/responses.js'
export { callerOf } from './server/authenticate.js'
export { hostGuard } from './server/guards.js'
