import { EngineError } from '../../engine/ports.js'

/** The changes of one sandbox that run, by all of its handles, and the clone that new ones wait for. */
interface Activity {
  readonly changes: Set<Promise<unknown>>
  commands: number
  clone?: Promise<void>
}

/** Keeps a clone, which replaces the session of a sandbox, apart from the changes of the session. */
export class SandboxChanges {
  readonly #activities = new Map<string, Activity>()

  /** Runs a change of the files of a sandbox, after a clone that is replacing its session. */
  async change<T>(id: string, work: () => Promise<T>): Promise<T> {
    const activity = await this.#ready(id)
    const run = work()
    const ended = run.catch(() => undefined)
    activity.changes.add(ended)
    try {
      return await run
    } finally {
      activity.changes.delete(ended)
      this.#forgetIdle(id, activity)
    }
  }

  /** Runs a command. It can last, so a clone does not wait for it. */
  async command<T>(id: string, work: () => Promise<T>): Promise<T> {
    const activity = await this.#ready(id)
    activity.commands += 1
    try {
      return await work()
    } finally {
      activity.commands -= 1
      this.#forgetIdle(id, activity)
    }
  }

  /**
   * Replaces the session of a sandbox while it has no changes: those that run end first, and new ones wait.
   *
   * @throws {EngineError} WOULD_BLOCK when a command runs.
   */
  async alone<T>(id: string, work: () => Promise<T>): Promise<T> {
    const activity = await this.#ready(id)
    let open = (): void => undefined
    activity.clone = new Promise((resolve) => (open = resolve))
    try {
      await Promise.all(activity.changes)
      if (activity.commands > 0)
        throw new EngineError('WOULD_BLOCK', 'a command of the sandbox runs: clone when it has ended')
      return await work()
    } finally {
      delete activity.clone
      open()
      this.#forgetIdle(id, activity)
    }
  }

  async #ready(id: string): Promise<Activity> {
    for (;;) {
      const activity = this.#activities.get(id) ?? { changes: new Set(), commands: 0 }
      this.#activities.set(id, activity)
      if (activity.clone === undefined) return activity
      await activity.clone
    }
  }

  #forgetIdle(id: string, { changes, commands, clone }: Activity): void {
    if (changes.size === 0 && commands === 0 && clone === undefined) this.#activities.delete(id)
  }
}
