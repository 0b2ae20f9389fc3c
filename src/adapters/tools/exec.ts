/** What a command runs with. */
export interface CommandContext {
  /** The working directory, an absolute path of the workspace. */
  readonly cwd?: string
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>
  /** Ends the command. The promise then rejects with the reason of the signal. */
  readonly signal?: AbortSignal
  /** The id of the tool call, if the framework says it. */
  readonly callId?: string
  /** The turn of the conversation, if the framework says it. */
  readonly turn?: string
}

/** The outcome of a command. */
export interface CommandOutcome {
  /** The standard output. */
  readonly stdout: string
  /** The standard error. */
  readonly stderr: string
  /** The exit code; 0 for success. */
  readonly exitCode: number
}

/**
 * Runs a command on the files of a workspace. A program chooses the shell, and so the rights of commands: adapters of
 * frameworks run no command without one.
 */
export type WorkspaceExec = (command: string, options: CommandContext) => Promise<CommandOutcome>
