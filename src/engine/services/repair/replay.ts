import { messageOf } from '../../base/errors.js'
import { whenLoaded } from '../../base/fault.js'
import { joinPath, parsePath } from '../../base/path.js'
import { apply, type ApplyContext } from '../../session/apply.js'
import type { EventBody, Redo } from '../../records/event.js'
import { Dir } from '../../tree/node.js'
import type { NodeLoader } from '../../tree/node-loader.js'
import { Tree } from '../../tree/tree.js'
import type { LostPath } from './tree.js'

/** A state of a session, as far as it can be derived. It may refer to lost contents. */
export interface RawState {
  readonly root: Dir
  /** The paths that are missing because of lost tree nodes and events. */
  readonly lost: readonly LostPath[]
  /** The first event whose effect is unknown; undefined if all effects are known. */
  readonly unknownFrom: number | undefined
}

export interface ReplayContext extends ApplyContext {
  readonly newIno: () => number
}

/** The mode of a directory of which only the name is known. */
const madeDirectoryMode = 0o755

/** Replays the events of a session as far as that is possible. */
export class LooseReplay {
  readonly #loader: NodeLoader
  readonly #context: ReplayContext
  #tree: Tree
  #lost: LostPath[]
  #unknownFrom: number | undefined

  constructor(start: RawState, loader: NodeLoader, context: ReplayContext) {
    this.#loader = loader
    this.#context = context
    this.#tree = new Tree(start.root, loader)
    this.#lost = [...start.lost]
    this.#unknownFrom = start.unknownFrom
  }

  get state(): RawState {
    return { root: this.#tree.freeze(), lost: this.#lost, unknownFrom: this.#unknownFrom }
  }

  reset({ root, lost, unknownFrom }: RawState): void {
    this.#tree = new Tree(root, this.#loader)
    this.#lost = [...lost]
    this.#unknownFrom = unknownFrom
  }

  /** Applies an event. `restored` returns the state that a restore went back to, if that state is known. */
  async event(
    seq: number,
    [at, , , , , redo]: EventBody,
    restored: (seq: number) => RawState | undefined,
  ): Promise<void> {
    if (typeof redo === 'string') {
      this.#unknownFrom ??= seq
      return
    }
    for (const effect of redo ?? []) {
      if (effect[0] === 'R') {
        const state = restored(effect[1])
        if (state === undefined) this.#unknownFrom ??= seq
        else this.reset(state)
      } else await this.#effect(effect, at, seq)
    }
  }

  async #effect(effect: Exclude<Redo, readonly ['R', number]>, at: number, seq: number): Promise<void> {
    this.#follow(effect)
    try {
      await this.#apply(effect, at)
      return
    } catch (error) {
      if (effect[0] === 'u') return
      if (await this.#makeParents(effect, at)) {
        try {
          await this.#apply(effect, at)
          return
        } catch {
          // Reported below.
        }
      }
      const path = targetOf(effect)
      this.#lost.push({
        path,
        message: `the change of event ${seq} could not be repeated: ${messageOf(error)}`,
      })
      // The file is removed, because half of a content is useless.
      if (effect[0] === 'p' || effect[0] === 'o' || effect[0] === 'k') await this.#remove(path, at)
    }
  }

  async #apply(effect: Exclude<Redo, readonly ['R', number]>, at: number): Promise<void> {
    const before = this.#tree.freeze()
    try {
      await whenLoaded(() => {
        this.#tree.reset(before)
        apply(this.#tree, effect, at, this.#context)
      })
    } catch (error) {
      this.#tree.reset(before)
      throw error
    }
  }

  async #remove(path: string, at: number): Promise<void> {
    if (path.startsWith('/')) await this.#apply(['u', path], at).catch(() => undefined)
  }

  /** Creates the lost parent directories of an effect's path; false if none are lost. */
  async #makeParents(effect: Redo, at: number): Promise<boolean> {
    const made =
      effect[0] === 'h' || effect[0] === 'm' ? effect[2] : 'wds'.includes(effect[0]) ? effect[1] : undefined
    if (typeof made !== 'string') return false
    const names = parsePath(made)
    let isMade = false
    for (let depth = 1; depth < names.length; depth++) {
      const parent = names.slice(0, depth)
      const node = await whenLoaded(() => this.#tree.find(parent)).catch(() => undefined)
      if (node instanceof Dir) continue
      if (node !== undefined) return false
      const path = joinPath(parent)
      await this.#apply(['d', path, madeDirectoryMode, this.#context.newIno()], at).catch(() => undefined)
      this.#lost.push({ path, message: 'its mode and times are lost' })
      isMade = true
    }
    return isMade
  }

  /** Updates the lost paths: the effect may delete, move or replace the files at these paths. */
  #follow(effect: Redo): void {
    if (this.#lost.length === 0) return
    if (effect[0] === 'u' || effect[0] === 'w')
      this.#lost = this.#lost.filter(({ path }) => !isAt(path, effect[1]))
    else if (effect[0] === 'm') {
      const [, from, to] = effect
      this.#lost = this.#lost
        .filter(({ path }) => !isAt(path, to))
        .map(({ path, message }) => ({
          path: isAt(path, from) ? to + path.slice(from.length) : path,
          message,
        }))
    }
  }
}

function targetOf(effect: Exclude<Redo, readonly ['R', number]>): string {
  const target = effect[0] === 'm' || effect[0] === 'h' || effect[0] === 'k' ? effect[2] : effect[1]
  return typeof target === 'number' ? `file number ${target}` : target
}

function isAt(path: string, above: string): boolean {
  return path === above || path.startsWith(`${above}/`)
}
