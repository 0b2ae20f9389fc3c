import type {
  HookCallbackMatcher,
  McpSdkServerConfigWithInstance,
  RewindFilesResult,
  SDKUserMessage,
  UserPromptSubmitHookInput,
} from '@anthropic-ai/claude-agent-sdk'
import { posix } from 'node:path'
import type { SessionApi } from '../../engine/index.js'
import { invalid, Shape } from '../../engine/ports.js'
import { workspaceOf, type WorkspaceExec, type WorkspaceOptions } from '../tools/parts.js'
import { rewind, type RewindOptions } from '../turns/index.js'
import { serverName, serverOf } from './server.js'
import { claudeTools } from './tools.js'
import { Turns, type ClaudeTurn } from './turns.js'

/** Options of {@link claudeWorkspace}. */
export interface ClaudeWorkspaceOptions extends WorkspaceOptions {
  /**
   * Runs the commands of `Bash`, such as `exec` of a `workspaceShell` of `forkspace/just-bash`. Without it, there is no
   * `Bash`.
   */
  readonly exec?: WorkspaceExec
  /**
   * The working directory of Claude Code, an absolute path of the host. Models write paths below it. They mean files of
   * the session: with `/work`, the path `/work/a.ts` is `/a.ts`. If the session has `/work` itself, absolute paths at
   * or below it are refused, and the model is asked for relative ones.
   */
  readonly cwd?: string
}

/** The options of `query` with which Claude Code works on a session, and on nothing else. */
export interface ClaudeQuerySettings {
  /** The option `cwd`, if it was given. */
  readonly cwd?: string
  /** None of the built-in tools, which work on the host. */
  readonly tools: []
  /** The server with the tools of the session. */
  readonly mcpServers: Record<string, McpSdkServerConfigWithInstance>
  /** Leads calls of the built-in tools to those of the session. */
  readonly toolAliases: Record<string, string>
  /** The tools of the session, which need no permission. */
  readonly allowedTools: string[]
  /** The built-in tools for files and commands of the host. */
  readonly disallowedTools: string[]
  /** Takes a checkpoint at the beginning of each turn. */
  readonly hooks: Record<'UserPromptSubmit', HookCallbackMatcher[]>
}

/** A session for queries of the Claude Agent SDK. */
export interface ClaudeWorkspace {
  /** For `query({ prompt, options })`. Each read makes a server of its own, for one query. */
  readonly options: ClaudeQuerySettings
  /** The user messages so far, oldest first, at most 1,000. */
  readonly turns: readonly ClaudeTurn[]
  /**
   * Passes user messages on to `query`. A message without a `uuid` gets one. From then on, `rewindFiles` knows it.
   *
   * A message is recognised by its text. If two of the same text are sent while no turn runs, the later one can get
   * the turn of the earlier one, and a rewind to it then leads to the state before both.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the value is neither a string nor a sequence of messages.
   */
  prompts(
    prompt: string | Iterable<SDKUserMessage> | AsyncIterable<SDKUserMessage>,
  ): AsyncIterable<SDKUserMessage>
  /**
   * Brings all files back to their state before a user message, as `rewindFiles` of a query does, but including the
   * changes that commands made. The rewind is one event, so `session.undo()` takes it back. `insertions` and
   * `deletions` count the lines that it adds and removes; `filesChanged` has at most 10,000 paths.
   *
   * @param userMessageId - The `uuid` of the message, or for a prompt that did not go through `prompts` its `prompt_id`.
   * @throws {EngineError} INVALID_ARGUMENT when the id is no id, or an option is unknown or has the wrong form.
   */
  rewindFiles(userMessageId: string, options?: RewindOptions): Promise<RewindFilesResult>
}

const optionsShape = new Shape<ClaudeWorkspaceOptions>({
  metadata: true,
  guards: true,
  exec: true,
  cwd: true,
})

/** The rule with paths also keeps Claude Code itself from reading the files that a prompt mentions, as in `@notes.md`. */
const builtIn = ['Bash', 'Edit', 'Glob', 'Grep', 'NotebookEdit', 'PowerShell', 'Read', 'Read(//**)', 'Write']

/**
 * Puts a session behind the tools of Claude Code: `Read`, `Write`, `Edit`, `Glob`, `Grep`, and with `exec` also `Bash`.
 *
 * Guarantees
 * - The tools reach the files of the session, and no file of the host. The built-in tools are off.
 * - A call that changes files is one event, with the id of the model's `tool_use` in `details.metadata.callId`. Its
 *   group is the turn: the id of the user message.
 * - A call that fails changes nothing, and its text says what to do. A command is the exception: `exec` decides.
 * - A write to a file that changed since the model read it fails with HASH_MISMATCH.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { claudeWorkspace } from 'forkspace/claude'
 *
 * const workspace = claudeWorkspace(session)
 * const { allowedTools } = workspace.options // for query({ prompt: workspace.prompts('Fix it.'), options: workspace.options })
 * console.log(allowedTools[0]) // mcp__forkspace__Read
 */
export function claudeWorkspace(session: SessionApi, options: ClaudeWorkspaceOptions = {}): ClaudeWorkspace {
  const { exec, cwd, ...forTools } = optionsShape.read(options, 'options')
  const workspace = workspaceOf(session, forTools)
  if (exec !== undefined && typeof exec !== 'function')
    throw invalid('exec', 'must be a function that runs a command, such as exec of a workspaceShell')
  if (cwd !== undefined && (typeof cwd !== 'string' || !posix.isAbsolute(cwd)))
    throw invalid('cwd', 'must be an absolute path of the host')
  const turns = new Turns(session)
  const tools = claudeTools(workspace, { exec, cwd })
  const names = [...tools.keys()]
  return {
    get options() {
      // The server uses the turn of its own query. Without its hooks, it uses the last turn of all queries.
      let turn: string | undefined
      const begin = async (input: UserPromptSubmitHookInput): Promise<void> => {
        turn = (await turns.begin(input)) ?? turn
      }
      return {
        ...(cwd !== undefined && { cwd }),
        tools: [] satisfies [],
        mcpServers: { [serverName]: serverOf(tools, () => turn ?? turns.current) },
        toolAliases: Object.fromEntries(names.map((name) => [name, nameInQuery(name)])),
        allowedTools: names.map(nameInQuery),
        disallowedTools: [...builtIn],
        hooks: { UserPromptSubmit: [turnHook(begin)] },
      }
    },
    get turns() {
      return turns.list
    },
    prompts: (prompt) => turns.prompts(messagesOf(prompt)),
    rewindFiles: async (userMessageId, rewindOptions = {}) => rewind(session, userMessageId, rewindOptions),
  }
}

function nameInQuery(name: string): string {
  return `mcp__${serverName}__${name}`
}

function turnHook(begin: (input: UserPromptSubmitHookInput) => Promise<void>): HookCallbackMatcher {
  return {
    hooks: [
      async (input) => {
        if (input.hook_event_name === 'UserPromptSubmit') await begin(input)
        return {}
      },
    ],
  }
}

function messagesOf(
  prompt: string | Iterable<SDKUserMessage> | AsyncIterable<SDKUserMessage>,
): Iterable<SDKUserMessage> | AsyncIterable<SDKUserMessage> {
  if (typeof prompt === 'string')
    return [{ type: 'user', message: { role: 'user', content: prompt }, parent_tool_use_id: null }]
  if (typeof prompt === 'object' && prompt !== null)
    if (Symbol.asyncIterator in prompt || Symbol.iterator in prompt) return prompt
  throw invalid('prompt', 'must be a string, or a sequence of user messages')
}
