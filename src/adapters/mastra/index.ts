/**
 * Sessions for Mastra: the filesystem and the sandbox of a workspace.
 *
 * @module
 */
export type { SandboxSessions } from './checkpoints.js'
export { sessionFilesystem, type SessionFilesystem, type SessionFilesystemOptions } from './filesystem.js'
export { sessionToolHooks, type SessionToolHooksOptions } from './hooks.js'
export { sessionSandbox, type SessionSandbox, type SessionSandboxOptions } from './sandbox.js'
export { sessionTurns, type SessionTurns } from './turns.js'
export type { RewindOptions, RewindResult } from '../turns/index.js'
