import { readdir } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { HookCallbackMatcher, HookInput } from '@anthropic-ai/claude-agent-sdk'
import { parseCheckout, type Checkout, type CheckoutOptions, type Session } from '../../engine/index.js'
import { EngineError, given, invalid, Shape } from '../../engine/ports.js'
import { limits } from './limits.js'
import { headOf, removeCheckout } from './worktree-removal.js'

/** Options of {@link claudeWorktrees}. */
export interface ClaudeWorktreesOptions {
  /** The directory of the host for the directories of worktrees. It must be at or below one of `hostPaths.roots`. */
  readonly directory: string
  /** Options of the checkouts, such as `gitignore`, `sharedDirectories` or `git`. */
  readonly checkout?: CheckoutOptions
  /**
   * true: a removal deletes the files that the options of the checkout leave out, such as those that `gitignore` ignores.
   * false, the default: the removal fails with CHECKOUT_MODIFIED if there are any, and the directory stays.
   */
  readonly deleteIgnored?: boolean
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

const optionsShape = new Shape<ClaudeWorktreesOptions>({
  directory: true,
  checkout: true,
  deleteIgnored: true,
})

/**
 * Makes the worktrees of Claude Code forks of a session: a hook for a new worktree forks the session, and checks the
 * fork out. The hook for its removal syncs the changes back to the fork, and then removes the directory.
 *
 * Guarantees
 * - A directory is removed only after a sync that finds no change. If a sync fails, or a file changes after it, the
 *   directory stays, and the hook fails with CHECKOUT_MODIFIED. So it does with a name that is not UTF-8, and with the
 *   option `git` also with commits or branches that were made there.
 * - Files that the options of the checkout leave out are no part of the fork. They keep the directory, unless
 *   `deleteIgnored` is true.
 * - A program that still has a file open can write to it after the check. Such writes are lost.
 * - Only directories that these hooks created are removed. One that is missing already counts as removed.
 * - A name has one directory: a name that is open, or a directory with files, is refused.
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
  const { directory, checkout = {}, deleteIgnored = false } = optionsShape.read(options, 'options')
  if (typeof directory !== 'string' || !isAbsolute(directory))
    throw invalid('directory', 'must be an absolute path of the host')
  parseCheckout(directory, checkout)
  if (typeof deleteIgnored !== 'boolean')
    throw invalid('deleteIgnored', `must be true or false; it is ${given(deleteIgnored)}`)
  if (typeof session?.checkout !== 'function') throw invalid('session', 'must be a session in this process')
  const worktrees = new Worktrees(session, { directory, checkout, deleteIgnored })
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
  /** The commit of the repository, with the option `git`. */
  readonly head: string | undefined
  /** The removal that runs. */
  removal: Promise<void> | undefined
  isRemoved: boolean
}

class Worktrees {
  readonly #session: Session
  readonly #options: Required<ClaudeWorktreesOptions>
  readonly #opened: Opened[] = []
  /** The names of worktrees that are being created. */
  readonly #creating = new Set<string>()

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
    if (this.#creating.has(name) || this.#opened.some((one) => one.name === name && !one.isRemoved))
      throw new EngineError('ALREADY_EXISTS', `there is a worktree ${name} already: take another name`, {
        path: name,
      })
    this.#makeRoom()
    this.#creating.add(name)
    try {
      return { hookEventName: 'WorktreeCreate' as const, worktreePath: await this.#open(name) }
    } finally {
      this.#creating.delete(name)
    }
  }

  async remove(input: HookInput): Promise<void> {
    const path = input.hook_event_name === 'WorktreeRemove' ? input.worktree_path : undefined
    const found = this.#opened.find(({ checkout, isRemoved }) => !isRemoved && checkout.directory === path)
    if (found === undefined) throw invalid('worktree_path', 'must be a worktree that these hooks created')
    found.removal ??= this.#remove(found)
    await found.removal
  }

  async #open(name: string): Promise<string> {
    const directory = join(this.#options.directory, name)
    await requireEmpty(directory)
    const fork = await this.#session.fork({ metadata: { worktree: name } })
    try {
      const checkout = await fork.checkout(directory, this.#options.checkout)
      const head = this.#options.checkout.git === true ? await headOf(checkout.directory) : undefined
      this.#opened.push({ name, fork, checkout, head, removal: undefined, isRemoved: false })
      return checkout.directory
    } catch (error) {
      await fork.delete()
      throw error
    }
  }

  async #remove(worktree: Opened): Promise<void> {
    try {
      const { checkout, fork, head } = worktree
      const { deleteIgnored, checkout: layout } = this.#options
      const keeps = deleteIgnored ? undefined : { fork, apart: apartOf(layout) }
      await removeCheckout(checkout, { head, keeps })
      worktree.isRemoved = true
    } finally {
      worktree.removal = undefined
    }
  }

  #makeRoom(): void {
    if (this.#opened.length + this.#creating.size < limits.worktrees) return
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

/** The paths of a checkout that are no files of it: directories of the host, and the repository, which has its own check. */
function apartOf({ sharedDirectories = [] }: CheckoutOptions): readonly string[] {
  return ['/.git', ...sharedDirectories.map(({ path }) => path)]
}

/** Files of another origin would become part of the fork. A missing directory is empty, and a checkout refuses others. */
async function requireEmpty(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => [])
  if (names.length > 0)
    throw new EngineError('CHECKOUT_MODIFIED', `${directory} has files: take another name, or remove them`, {
      path: directory,
    })
}

/** Whether a name is one part of a path, of characters that every shell leaves alone. */
function isName(name: string): boolean {
  return name.length <= limits.worktreeNameLength && /^[A-Za-z0-9_][A-Za-z0-9._+-]*$/.test(name)
}
