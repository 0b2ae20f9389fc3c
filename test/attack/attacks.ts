import { abortedRequests } from './aborted-requests.js'
import { damageFormatOne } from './damaged-format-1.js'
import { damageIndex } from './damaged-index.js'
import { runCollectStarvation } from './collect-starvation.js'
import { hostileArguments } from './hostile-arguments.js'
import { heldSockets } from './held-sockets.js'
import { moveStores } from './moved-stores.js'
import { narrowedHandles } from './narrowed-handles.js'
import { slowReaders } from './slow-readers.js'
import { localRepositories } from './local-repositories.js'
import { stallingSources } from './stalling-sources.js'

export interface AttackOptions {
  /** How often the attack is tried. */
  readonly n: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface AttackResult {
  /** Figures in one line, such as `200 tries, 0 escapes`. */
  readonly line: string
  /** Whether any try got through. */
  readonly failed: boolean
}

export interface Attack {
  readonly text: string
  /** Tries of the long form, unless `--n` says otherwise. */
  readonly n: number
  /** Tries of the short form, at most 20 seconds, which `npm run test:long` runs. */
  readonly shortN: number
  run(options: AttackOptions): Promise<AttackResult>
}

/** One row for each attack; an attack is a file of its own in this folder. */
export const attacks: Readonly<Record<string, Attack>> = {
  'aborted-requests': {
    text: 'clients of the server that leave their requests at random points',
    n: 20_000,
    shortN: 400,
    run: abortedRequests,
  },
  'damaged-format-1': {
    text: 'sectors of stores of format 1 that are damaged before the first opening (0: each)',
    n: 0,
    shortN: 60,
    run: damageFormatOne,
  },
  'damaged-index': {
    text: 'sectors of the index that are zeroed, changed, cut off or doubled, of closed and of open stores (0: each)',
    n: 0,
    shortN: 24,
    run: damageIndex,
  },
  'collect-starvation': {
    text: 'collections beside each kind of load, which must end and give the space back',
    n: 160,
    shortN: 16,
    run: runCollectStarvation,
  },
  'hostile-arguments': {
    text: 'every public method with arguments that lie, throw or have the wrong type',
    n: 100_000,
    shortN: 2000,
    run: hostileArguments,
  },
  'held-sockets': {
    text: 'clients of the server that never close a connection that it refused or answered',
    n: 2000,
    shortN: 105,
    run: heldSockets,
  },
  'moved-stores': {
    text: 'directories of open stores that are moved, replaced, deleted or covered while they are written to',
    n: 180,
    shortN: 9,
    run: moveStores,
  },
  'narrowed-handles': {
    text: 'random calls on handles from which capabilities are withheld',
    n: 5000,
    shortN: 60,
    run: narrowedHandles,
  },
  'slow-readers': {
    text: 'clients of the server that ask for large answers and take them slowly or never',
    n: 200,
    shortN: 20,
    run: slowReaders,
  },
  'local-repositories': {
    text: 'symlinks, FIFOs and devices in repositories of this host, also swapped while they are used',
    n: 10_000,
    shortN: 30,
    run: localRepositories,
  },
  'stalling-sources': {
    text: 'imports whose source hangs, trickles, or sends progress without an end, ended in every way',
    n: 1000,
    shortN: 96,
    run: stallingSources,
  },
}
