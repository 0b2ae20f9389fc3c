import type { TreeStep } from '../model/model-tree.js'
import type { Step } from './protocol.js'

const names = ['a', 'b', 'c', 'd', 'e', '\u{1f600}', '\ue000']

/** Random changes of a session, with contents that identify the change. */
export class Steps {
  readonly #random: () => number
  readonly #deletes: boolean

  constructor(random: () => number, { deletes = false }: { readonly deletes?: boolean } = {}) {
    this.#random = random
    this.#deletes = deletes
  }

  /** Restores, forks and deletions of checkpoints use one of the labels. */
  next(n: number, labels: readonly string[], mayFork: boolean): Step {
    const kind = this.#random() % 100
    const label = labels[this.#random() % Math.max(labels.length, 1)]
    if (kind < 8) return { op: 'checkpoint', label: `c${n}` }
    if (kind < 14 && label !== undefined) return { op: 'restore', label }
    if (kind < 16 && mayFork) {
      return { op: 'fork', tag: `f${n}`, ...(label !== undefined && this.#random() % 2 === 0 && { label }) }
    }
    if (kind < 24 && this.#deletes && label !== undefined) return { op: 'deleteCheckpoint', label }
    return this.#treeStep(n, kind)
  }

  #treeStep(n: number, kind: number): TreeStep {
    const content = {
      size: this.#random() % 20 === 0 ? this.#random() % 200_000 : this.#random() % 300,
      seed: n,
    }
    if (kind < 30)
      return { op: 'append', path: this.#path(), content: { size: this.#random() % 50, seed: n } }
    if (kind < 45) {
      // Uses the same content throughout, so that a torn batch is visible. Sometimes the last part fails, and the whole
      // batch is rejected.
      const steps: (TreeStep & { op: 'write' | 'delete' })[] = []
      for (let i = this.#random() % 12; i >= 0; i--)
        steps.push({ op: 'write', path: `/batch/${this.#random() % 40}`, content })
      if (this.#random() % 3 === 0) steps.push({ op: 'delete', path: this.#path() })
      return { op: 'batch', steps }
    }
    if (kind < 55) return { op: 'rename', from: this.#path(), to: this.#path() }
    if (kind < 62) return { op: 'delete', path: this.#path() }
    if (kind < 66) return { op: 'mkdir', path: this.#path() }
    if (kind < 68) return { op: 'rmdir', path: this.#path() }
    if (kind < 71)
      return {
        op: 'chmod',
        path: this.#random() % 4 === 0 ? '/' : this.#path(),
        mode: 0o600 + (this.#random() % 64),
      }
    if (kind < 73) return { op: 'symlink', path: this.#path(), target: this.#path() }
    return { op: 'write', path: this.#path(), content }
  }

  #path(): string {
    let text = ''
    for (let depth = this.#random() % 3; depth >= 0; depth--)
      text += `/${names[this.#random() % names.length]!}`
    return text
  }
}
