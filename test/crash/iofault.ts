import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nodeDisk } from '../../src/adapters/level/directory/node-disk.js'
import { EngineError } from '../../src/index.js'
import { randomWords } from '../../src/testing.js'
import { hookedDisk, systemFailure, type DiskEvent, type DiskOperation } from './hooked-disk.js'
import { storageOn } from './storage-on.js'
import { Trial } from './trial.js'

export interface FaultOptions {
  readonly faults: number
  readonly seed: number
  readonly onProgress: (line: string) => void
}

export interface FaultResult {
  /** Stores whose disk failed. */
  faults: number
  acknowledged: number
  lost: number
  torn: number
  /**
   * The number of failed writes after which the same engine continued, and after which it did not although the fault
   * was over.
   */
  resumed: number
  stuck: number
  refusedOpens: number
}

const failing: readonly DiskOperation[] = [
  'write',
  'sync',
  'create',
  'rename',
  'remove',
  'truncate',
  'syncDirectory',
  'open',
  'list',
  'read',
  'size',
  'makeDirectory',
]
const roundsPerDirectory = 6
const callsPerRound = 60

/**
 * Makes one disk call fail, once or permanently from then on, and checks the stored data at once and after reopening.
 */
export async function runFaults(options: FaultOptions): Promise<FaultResult> {
  const random = randomWords(options.seed)
  const result = { faults: 0, acknowledged: 0, lost: 0, torn: 0, resumed: 0, stuck: 0, refusedOpens: 0 }
  while (result.faults < options.faults) {
    const directory = await mkdtemp(join(tmpdir(), 'fault-'))
    const disk = new FaultyDisk()
    const storage = () => storageOn(directory, { durability: 'full', disk: disk.disk, segmentBytes: 2 ** 16 })
    const trial = new Trial(storage, random, options.onProgress)
    for (let round = 0; round < roundsPerDirectory && !trial.verifier.damaged; round++) {
      await faultRound(trial, disk, random, result, options.onProgress)
    }
    disk.heal()
    await trial.open()
    await trial.close()
    result.acknowledged += trial.verifier.acknowledged
    result.lost += trial.verifier.lost
    result.torn += trial.verifier.torn
    if (trial.verifier.damaged) options.onProgress(`kept for inspection: ${directory}`)
    else await rm(directory, { recursive: true })
    if (trial.verifier.damaged || result.stuck > 5) break
  }
  return result
}

async function faultRound(
  trial: Trial,
  disk: FaultyDisk,
  random: () => number,
  result: FaultResult,
  onProgress: (line: string) => void,
): Promise<void> {
  const whileOpening = random() % 4 === 0
  if (!whileOpening) await trial.open()
  const operation = failing[random() % (random() % 2 === 0 ? 3 : failing.length)]!
  const lasting = random() % 3 === 0
  const plan = `${operation} fails ${lasting ? 'for ever' : 'once'}${whileOpening ? ' while opening' : ''}`
  disk.fail({
    operation,
    skip: random() % (whileOpening ? 4 : 30),
    lasting,
    moment: lasting ? 'before' : (['before', 'middle', 'after'] as const)[random() % 3]!,
    part: (random() % 1000) / 1000,
    code: random() % 2 === 0 ? 'EIO' : 'ENOSPC',
  })
  try {
    if (whileOpening) await trial.open()
    const failures = await trial.run(callsPerRound, 1 + (random() % 16))
    await trial.requireReads().catch((error: unknown) => {
      // Reads cannot succeed on a disk that fails them.
      if (!['read', 'open', 'size', 'list'].includes(operation)) throw error
    })
    disk.heal()
    if (failures.length > 0) {
      if (await trial.resumes()) result.resumed++
      else {
        result.stuck++
        onProgress(`STUCK after ${plan}: ${failures[0]!.message}`)
      }
    }
  } catch (error) {
    disk.heal()
    if (!whileOpening || !(error instanceof EngineError) || error.reason === 'INTERNAL') throw error
    result.refusedOpens++
  }
  if (disk.failures > 0) result.faults++
  if (disk.failures > 0) onProgress(`${result.faults}: ${plan}`)
  await trial.close()
}

interface Fault extends Omit<DiskEvent, 'act'> {
  readonly operation: DiskOperation
  readonly skip: number
  readonly lasting: boolean
  readonly code: 'EIO' | 'ENOSPC'
}

class FaultyDisk {
  failures = 0
  #fault: Fault | undefined
  #left = 0
  readonly disk = hookedDisk(nodeDisk, ({ operation }) => {
    const fault = this.#fault
    if (fault === undefined || fault.operation !== operation || this.#left-- > 0) return undefined
    if (!fault.lasting) this.#fault = undefined
    this.failures++
    return {
      ...fault,
      act: () => {
        throw systemFailure(fault.code, operation)
      },
    }
  })

  fail(fault: Fault): void {
    this.failures = 0
    this.#fault = fault
    this.#left = fault.skip
  }

  heal(): void {
    this.#fault = undefined
  }
}
