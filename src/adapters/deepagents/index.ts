/**
 * Sessions for Deep Agents of LangChain: the files of a session as the backend of an agent.
 *
 * @module
 */
export { workspaceBackend, type WorkspaceBackendOptions } from './backend.js'
