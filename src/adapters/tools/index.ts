/**
 * Tools for language models, without a framework: JSON schemas and handlers.
 *
 * @module
 */
import type { SessionApi } from '../../engine/index.js'
import { applyPatchTool } from './apply-patch.js'
import { editTool, writeTool } from './edits.js'
import { memoryTool } from './memory.js'
import { globTool, grepTool, readTool } from './search.js'
import { textEditorTool } from './text-editor.js'
import type { WorkspaceTool } from './tool-types.js'
import { versionTools } from './versions.js'
import type { WorkspaceOptions } from './workspace.js'
import { workspaceOf } from './workspace-options.js'

export type { CommandContext, CommandOutcome, WorkspaceExec } from './exec.js'
export type { ToolCall, ToolHints, ToolResult, WorkspaceTool } from './tool-types.js'
export type { WorkspaceOptions } from './workspace.js'

/**
 * Tools for one session. Pass their names, descriptions and schemas to a model, and its calls to
 * `tools[name].call(input, { callId, turn })`. All tools of one call of this function belong to one agent: they
 * remember which versions of files it has read, and which fork it works on.
 *
 * - `str_replace_based_edit_tool` and `memory`: as Anthropic describes them.
 * - `apply_patch`: the format of OpenAI, or a unified diff.
 * - `read`, `edit`, `write`, `glob` and `grep`: the inputs of Claude Code.
 * - `checkpoint`, `restore`, `undo`, `redo`, `diff`, `fork`, `switch_workspace`, `list_workspaces`, `delete_fork`,
 *   `merge` and `history`.
 *
 * Guarantees
 * - A call that changes files is one event, with the id of the call in `details.metadata.callId`. The exception is a
 *   `rename` of `memory` into a missing directory, which is created by an event of its own.
 * - A call that fails changes nothing. Its text says what to do.
 * - A write to a file that changed since these tools read it fails with HASH_MISMATCH.
 * - Texts of results have at most 100,000 characters, and say when they were cut.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { workspaceTools } from 'forkspace/tools'
 *
 * const tools = workspaceTools(session)
 * const { text } = await tools.edit.call(
 *   { file_path: '/notes.md', old_string: 'one', new_string: 'two' },
 *   { callId: 'call_7', turn: 'turn 3' },
 * )
 */
export function workspaceTools(session: SessionApi, options: WorkspaceOptions = {}): WorkspaceTools {
  const workspace = workspaceOf(session, options)
  const tools = [
    textEditorTool(workspace),
    memoryTool(workspace),
    applyPatchTool(workspace),
    readTool(workspace),
    editTool(workspace),
    writeTool(workspace),
    globTool(workspace),
    grepTool(workspace),
    ...versionTools(workspace),
  ]
  return Object.fromEntries(tools.map((tool) => [tool.name, tool])) as unknown as WorkspaceTools
}

/** The names of the tools. */
export type WorkspaceToolName =
  | 'str_replace_based_edit_tool'
  | 'memory'
  | 'apply_patch'
  | 'read'
  | 'edit'
  | 'write'
  | 'glob'
  | 'grep'
  | 'checkpoint'
  | 'restore'
  | 'undo'
  | 'redo'
  | 'diff'
  | 'fork'
  | 'switch_workspace'
  | 'list_workspaces'
  | 'delete_fork'
  | 'merge'
  | 'history'

/** The tools of one session, by their names. */
export type WorkspaceTools = Readonly<Record<WorkspaceToolName, WorkspaceTool>>
