/**
 * Sessions for TanStack AI: a provider of sandboxes.
 *
 * @module
 */
export { workspaceSandboxProvider, type WorkspaceSandboxProviderOptions } from './provider.js'
export type { ExecFactory } from './sandbox-state.js'
