import type { ModelTree } from '../model/model-tree.js'
import { applyToModel, describeModel, type Outcome } from '../model/run-step.js'
import type { Line, Step } from './protocol.js'

export interface Call {
  readonly n: number
  readonly step: Step
  settled?: Outcome
  /** The store failed the call; it may be stored or not. */
  failed?: boolean
}

/** The session after a number of its calls. */
export interface Prefix {
  readonly position: number
  readonly tree: ModelTree
  readonly labels: Map<string, ModelTree>
}

/** The expected contents of a session: a verified state, and the calls since then. */
export class ExpectedSession {
  tree: ModelTree
  labels = new Map<string, ModelTree>()
  /** In order. */
  calls: Call[] = []
  /** Whether the session was seen in the store with the state recorded here. */
  verified = false

  constructor(tree: ModelTree) {
    this.tree = tree
  }

  /**
   * The possible sequences of stored calls: all calls, or all but the last of the failed calls before an acknowledged
   * one. The acknowledged call was made after the store had recovered, and recovery stores some of the failed calls or
   * none.
   */
  *histories(): Generator<readonly Call[]> {
    yield this.calls
    const acknowledged = this.calls.findLastIndex(({ settled }) => settled === 'ok')
    const failed = this.calls.slice(0, acknowledged + 1).filter((call) => call.failed)
    for (let stored = failed.length - 1; stored >= 0; stored--) {
      const lost = new Set(failed.slice(stored))
      yield this.calls.filter((call) => !lost.has(call))
    }
  }

  /**
   * The states after each number of calls, starting with the first that contains every acknowledged call. Reports forks
   * as it passes their calls.
   */
  *prefixes(
    calls: readonly Call[],
    onFork: (position: number, tag: string, tree: ModelTree) => void,
  ): Generator<Prefix> {
    const needed = calls.findLastIndex(({ settled }) => settled === 'ok') + 1
    for (const prefix of this.#states(calls, onFork)) if (prefix.position >= needed) yield prefix
  }

  /** Continues from the state that was found. */
  settleAt({ tree, labels }: Prefix): void {
    this.tree = tree
    this.labels = labels
    this.calls = []
  }

  /** The states after each number of calls, including zero, as text. */
  earlierStates(): string[] {
    const states: string[] = []
    for (const { tree, labels } of this.#states(this.calls))
      states.push([...describeModel(tree), ...labels.keys()].join('\n'))
    return states
  }

  /** The state after all calls. */
  final(): Prefix {
    let last: Prefix | undefined
    for (const prefix of this.#states(this.calls)) last = prefix
    return last!
  }

  *#states(
    calls: readonly Call[],
    onFork: (position: number, tag: string, tree: ModelTree) => void = () => undefined,
  ): Generator<Prefix> {
    let tree = this.tree.clone()
    const labels = new Map(this.labels)
    yield { position: 0, tree, labels }
    for (const [index, { n, step, settled }] of calls.entries()) {
      let outcome: Outcome = 'ok'
      if (step.op === 'checkpoint') labels.set(step.label, tree.clone())
      else if (step.op === 'deleteCheckpoint') labels.delete(step.label)
      else if (step.op === 'restore') tree = labels.get(step.label)!.clone()
      else if (step.op === 'fork')
        onFork(index, step.tag, (step.label === undefined ? tree : labels.get(step.label)!).clone())
      else outcome = applyToModel(tree, step)
      if (settled !== undefined && settled !== outcome) {
        // In this case a failed call was not stored.
        if (calls.slice(0, index).some(({ failed }) => failed)) return
        throw new Error(
          `call ${n} ${JSON.stringify(step)}: the model says ${outcome}, the engine said ${settled}`,
        )
      }
      yield { position: index + 1, tree, labels }
    }
  }
}

/** The complete lines of a report; ignores a last line that the kill truncated. */
export function parseReport(text: string): Line[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}
