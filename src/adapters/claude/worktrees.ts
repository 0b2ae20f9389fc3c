import { rm } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { HookCallbackMatcher, HookInput } from '@anthropic-ai/claude-agent-sdk'
import { parseCheckout, type Checkout, type CheckoutOptions, type Session } from '../../engine/index.js'
import { EngineError, invalid, Shape } from '../../engine/ports.js'
import { limits } from './limits.js'

/** Options of {@link claudeWorktrees}. */
export interface ClaudeWorktreesOptions {
  /** The directory of the host for the directories of worktrees. It must be at or below one of `hostPaths.roots`. */
  readonly directory: string
  /** Options of the checkouts, such as `gitignore`, `sharedDirectories` or `git`. */
  readonly checkout?: CheckoutOptions
}

/** A worktree: a fork of the session in a directory of the host. */
export interface ClaudeWorktree {
  /** The name that Claude Code gave it. */
  readonly name: string
  /** The directory on the host. */
  readonly directory: string
  /** The fork. It stays after the removal of the directory, with the changes that were made there. */
  readonly fork: Session
  /** Whether the directory was removed. */
  readonly isRemoved: boolean
}

/** The worktrees of Claude Code, as forks of a session. */
export interface ClaudeWorktrees {
  /** For the option `hooks` of `query`. */
  readonly hooks: Readonly<Record<'WorktreeCreate' | 'WorktreeRemove', HookCallbackMatcher[]>>
  /** The worktrees so far, oldest first: at most 100, and the removed ones go first. */
  readonly list: readonly ClaudeWorktree[]
}

const optionsShape = new Shape<ClaudeWorktreesOptions>({ directory: true, checkout: true })

/**
 * Makes the worktrees of Claude Code forks of a session: a hook for a new worktree forks the session, and checks the
 * fork out. The hook for its removal syncs the changes back to the fork, and then removes the directory.
 *
 * Guarantees
 * - A directory is removed only after its changes are in the fork. If the sync fails, it stays.
 * - Only directories that these hooks created are removed.
 *
 * @throws {EngineError} INVALID_ARGUMENT when an option is unknown or has the wrong form, or the session is none.
 *
 * @example
 * import { claudeWorktrees } from 'forkspace/claude'
 *
 * const worktrees = claudeWorktrees(session, { directory })
 * console.log(Object.keys(worktrees.hooks)) // for query({ prompt, options: { hooks: worktrees.hooks } })
 */
export function claudeWorktrees(session: Session, options: ClaudeWorktreesOptions): ClaudeWorktrees {
  const { directory, checkout = {} } = optionsShape.read(options, 'options')
  if (typeof directory !== 'string' || !isAbsolute(directory))
    throw invalid('directory', 'must be an absolute path of the host')
  parseCheckout(directory, checkout)
  if (typeof session?.checkout !== 'function') throw invalid('session', 'must be a session in this process')
  const worktrees = new Worktrees(session, { directory, checkout })
  return {
    hooks: {
      WorktreeCreate: [{ hooks: [async (input) => ({ hookSpecificOutput: await worktrees.create(input) })] }],
      WorktreeRemove: [
        {
          hooks: [
            async (input) => {
              await worktrees.remove(input)
              return {}
            },
          ],
        },
      ],
    },
    get list() {
      return worktrees.list
    },
  }
}

interface Opened {
  readonly name: string
  readonly fork: Session
  readonly checkout: Checkout
  isRemoved: boolean
}

class Worktrees {
  readonly #session: Session
  readonly #options: Required<ClaudeWorktreesOptions>
  readonly #opened: Opened[] = []

  constructor(session: Session, options: Required<ClaudeWorktreesOptions>) {
    this.#session = session
    this.#options = options
  }

  get list(): readonly ClaudeWorktree[] {
    return this.#opened.map(({ name, fork, checkout, isRemoved }) => ({
      name,
      fork,
      directory: checkout.directory,
      isRemoved,
    }))
  }

  async create(input: HookInput) {
    const name = input.hook_event_name === 'WorktreeCreate' ? input.name : undefined
    if (typeof name !== 'string' || !isName(name))
      throw invalid('name', 'must have only letters, digits, dots, dashes, underscores and plus signs')
    this.#makeRoom()
    const fork = await this.#session.fork({ metadata: { worktree: name } })
    try {
      const checkout = await fork.checkout(join(this.#options.directory, name), this.#options.checkout)
      this.#opened.push({ name, fork, checkout, isRemoved: false })
      return { hookEventName: 'WorktreeCreate' as const, worktreePath: checkout.directory }
    } catch (error) {
      await fork.delete()
      throw error
    }
  }

  async remove(input: HookInput): Promise<void> {
    const path = input.hook_event_name === 'WorktreeRemove' ? input.worktree_path : undefined
    const found = this.#opened.find(({ checkout, isRemoved }) => !isRemoved && checkout.directory === path)
    if (found === undefined) throw invalid('worktree_path', 'must be a worktree that these hooks created')
    await found.checkout.sync()
    await rm(found.checkout.directory, { recursive: true })
    found.isRemoved = true
  }

  #makeRoom(): void {
    if (this.#opened.length < limits.worktrees) return
    const removed = this.#opened.findIndex(({ isRemoved }) => isRemoved)
    if (removed === -1)
      throw new EngineError(
        'TOO_LARGE',
        `there are ${limits.worktrees} worktrees: remove one that is not needed`,
        {
          limit: String(limits.worktrees),
        },
      )
    this.#opened.splice(removed, 1)
  }
}

/** Whether a name is one part of a path, of characters that every shell leaves alone. */
function isName(name: string): boolean {
  return name.length <= limits.worktreeNameLength && /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/.test(name)
}
