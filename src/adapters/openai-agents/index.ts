/**
 * Sessions for the Agents SDK of OpenAI: function tools, an editor for patches, a shell, and sandboxes.
 *
 * @module
 */
export { workspaceEditor, workspacePatchTool, type WorkspacePatchToolOptions } from './editor.js'
export { workspaceFunctionTools, type WorkspaceFunctionToolsOptions } from './function-tools.js'
export { workspaceSandboxClient, type WorkspaceSandboxClientOptions } from './sandbox-client.js'
export {
  workspaceSandboxSession,
  type WorkspaceSandboxSessionOptions,
  type WorkspaceSandboxState,
} from './sandbox-session.js'
export {
  workspaceShellFor,
  workspaceShellTool,
  type WorkspaceShellForOptions,
  type WorkspaceShellToolOptions,
} from './shell.js'
