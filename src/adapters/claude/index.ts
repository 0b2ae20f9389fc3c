/**
 * Sessions for the Claude Agent SDK: the tools of Claude Code on a session, rewinds, and worktrees.
 *
 * @module
 */
export {
  claudeWorkspace,
  type ClaudeQuerySettings,
  type ClaudeWorkspace,
  type ClaudeWorkspaceOptions,
} from './workspace.js'
export type { RewindOptions } from '../turns/index.js'
export type { ClaudeTurn } from './turns.js'
export {
  claudeWorktrees,
  type ClaudeWorktree,
  type ClaudeWorktrees,
  type ClaudeWorktreesOptions,
} from './worktrees.js'
