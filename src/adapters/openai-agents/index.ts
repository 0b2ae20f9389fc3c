/**
 * Sessions for the Agents SDK of OpenAI: function tools, an editor for patches, and a shell.
 *
 * @module
 */
export { workspaceEditor, workspacePatchTool, type WorkspacePatchToolOptions } from './editor.js'
export { workspaceFunctionTools, type WorkspaceFunctionToolsOptions } from './function-tools.js'
export {
  workspaceShellFor,
  workspaceShellTool,
  type WorkspaceShellForOptions,
  type WorkspaceShellToolOptions,
} from './shell.js'
