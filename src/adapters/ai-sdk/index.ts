/**
 * Sessions for the AI SDK: tools for its loops, and the files of a session as its sandbox.
 *
 * @module
 */
export { workspaceSandbox, type WorkspaceSandboxOptions } from './sandbox.js'
export { workspaceToolSet, type WorkspaceToolSet, type WorkspaceToolSetOptions } from './tool-set.js'
