import type { ModelTree } from '../model/model-tree.js'
import { applyToModel, describeModel, type Outcome } from '../model/run-step.js'
import type { Line, Step } from './protocol.js'

export interface Call {
  readonly n: number
  readonly step: Step
  settled?: Outcome
}

/** The session after some number of its calls. */
export interface Prefix {
  readonly position: number
  readonly tree: ModelTree
  readonly labels: Map<string, ModelTree>
}

/** A session as it must be: one state that was verified, and the calls made since. */
export class ExpectedSession {
  tree: ModelTree
  labels = new Map<string, ModelTree>()
  /** In order. */
  calls: Call[] = []
  /** Whether it was seen in the store, and has the state it was seen with. */
  verified = false

  constructor(tree: ModelTree) {
    this.tree = tree
  }

  /**
   * The states after each number of calls, from the first that holds every acknowledged one on. Forks are
   * reported as their calls are passed.
   */
  *prefixes(onFork: (position: number, tag: string, tree: ModelTree) => void): Generator<Prefix> {
    const needed = this.calls.findLastIndex(({ settled }) => settled === 'ok') + 1
    for (const prefix of this.#states(onFork)) if (prefix.position >= needed) yield prefix
  }

  /** Goes on from what was found. */
  settleAt({ tree, labels }: Prefix): void {
    this.tree = tree
    this.labels = labels
    this.calls = []
  }

  /** What each number of calls leads to, none included, as text. */
  earlierStates(): string[] {
    const states: string[] = []
    for (const { tree, labels } of this.#states())
      states.push([...describeModel(tree), ...labels.keys()].join('\n'))
    return states
  }

  /** The state after every call. */
  final(): Prefix {
    let last: Prefix | undefined
    for (const prefix of this.#states()) last = prefix
    return last!
  }

  *#states(
    onFork: (position: number, tag: string, tree: ModelTree) => void = () => undefined,
  ): Generator<Prefix> {
    let tree = this.tree.clone()
    const labels = new Map(this.labels)
    yield { position: 0, tree, labels }
    for (const [index, { n, step, settled }] of this.calls.entries()) {
      let outcome: Outcome = 'ok'
      if (step.op === 'checkpoint') labels.set(step.label, tree.clone())
      else if (step.op === 'restore') tree = labels.get(step.label)!.clone()
      else if (step.op === 'fork')
        onFork(index, step.tag, (step.label === undefined ? tree : labels.get(step.label)!).clone())
      else outcome = applyToModel(tree, step)
      if (settled !== undefined && settled !== outcome) {
        throw new Error(
          `call ${n} ${JSON.stringify(step)}: the model says ${outcome}, the engine said ${settled}`,
        )
      }
      yield { position: index + 1, tree, labels }
    }
  }
}

/** The whole lines of a report; a last one that was cut by the kill does not count. */
export function parseReport(text: string): Line[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}
