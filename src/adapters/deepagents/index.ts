/**
 * Sessions for Deep Agents of LangChain: the files of a session as the backend of an agent, with a checkpoint for each
 * user message.
 *
 * @module
 */
export { workspaceBackend, type WorkspaceBackendOptions } from './backend.js'
export { workspaceTurns, type WorkspaceTurns } from './turns.js'
export type { RewindOptions, RewindResult } from '../turns/index.js'
