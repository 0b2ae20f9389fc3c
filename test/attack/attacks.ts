import { abortedRequests } from './aborted-requests.js'
import { damageFormatOne } from './damaged-format-1.js'
import { damageIndex } from './damaged-index.js'
import { runCollectStarvation } from './collect-starvation.js'
import { hostileArguments } from './hostile-arguments.js'
import { hostileTools } from './hostile-tools.js'
import { heldSockets } from './held-sockets.js'
import { moveStores } from './moved-stores.js'
import { narrowedHandles } from './narrowed-handles.js'
import { noisyTenant } from './noisy-tenant.js'
import { slowReaders } from './slow-readers.js'
import { localRepositories } from './local-repositories.js'
import { stallingSources } from './stalling-sources.js'

export interface AttackOptions {
  /** The number of attempts. */
  readonly n: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface AttackResult {
  /** The figures in one line, such as `200 tries, 0 escapes`. */
  readonly line: string
  /** Whether any attempt succeeded. */
  readonly failed: boolean
}

export interface Attack {
  readonly text: string
  /** Attempts in the long form, unless `--n` is given. */
  readonly n: number
  /** Attempts in the short form, which `npm run test:long` runs and which takes at most 20 seconds. */
  readonly shortN: number
  run(options: AttackOptions): Promise<AttackResult>
}

/** The attacks by name; each has its own file in this directory. */
export const attacks: Readonly<Record<string, Attack>> = {
  'aborted-requests': {
    text: 'clients of the server that abort their requests at random points',
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
    text: 'collections during each kind of load, which must end and reclaim the space',
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
  'hostile-tools': {
    text: 'tools for models, and those of the MCP server, with hostile inputs',
    n: 10_000,
    shortN: 1000,
    run: hostileTools,
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
  'noisy-tenant': {
    text: 'many unread responses of each operation, while another tenant uses the server',
    n: 300,
    shortN: 5,
    run: noisyTenant,
  },
  'slow-readers': {
    text: 'clients of the server that request large responses and read them slowly or never',
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
