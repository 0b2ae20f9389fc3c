/**
 * Sessions for Mastra: the filesystem and the sandbox of a workspace.
 *
 * @module
 */
export type { SandboxSessions } from './checkpoints.js'
export { sessionFilesystem, type SessionFilesystem, type SessionFilesystemOptions } from './filesystem.js'
export { sessionToolHooks } from './hooks.js'
export { sessionSandbox, type SessionSandbox, type SessionSandboxOptions } from './sandbox.js'
