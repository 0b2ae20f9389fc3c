import { itemAt } from '../base/present.js'
import type { Core } from '../session/core.js'
import type { CommittedEvent } from '../session/history/feed.js'
import { treeChanges } from '../session/tree-changes.js'

/** 'rename': a name was added, removed or moved. 'change': content or attributes changed. */
export type WatchEventType = 'rename' | 'change'

export interface WatchChange {
  readonly type: WatchEventType
  readonly path: string
  /** The new path, if the entry was moved. That name changed too. */
  readonly movedTo?: string
  readonly removed?: boolean
}

/**
 * Returns the changes of an event as watchers receive them. For a restore, they are the differences between
 * the two trees.
 */
export function changesOf(core: Core, event: CommittedEvent): WatchChange[] | Promise<WatchChange[]> {
  if (event.restored !== undefined) return differences(core, event.restored)
  const changes: WatchChange[] = []
  for (const redo of event.redo) {
    const [letter, path] = redo
    if (typeof path !== 'string') continue
    switch (letter) {
      case 'w':
        changes.push({ type: 'rename', path })
        if (redo[4] !== 0) changes.push({ type: 'change', path })
        break
      case 'd':
      case 's':
        changes.push({ type: 'rename', path })
        break
      case 'u':
        changes.push({ type: 'rename', path, removed: true })
        break
      case 'm':
        changes.push({ type: 'rename', path, movedTo: redo[2] })
        break
      default:
        changes.push(...otherChanges(redo))
    }
  }
  return changes.filter((one, i) => i === 0 || !same(one, itemAt(changes, i - 1)))
}

function otherChanges(redo: readonly unknown[]): WatchChange[] {
  const [letter, path, second] = redo
  // A new hard link and a copy of content change their second path.
  if (letter === 'h') return [{ type: 'rename', path: second as string }]
  return [{ type: 'change', path: (letter === 'k' ? second : path) as string }]
}

function same(a: WatchChange, b: WatchChange): boolean {
  return a.type === b.type && a.path === b.path && a.movedTo === b.movedTo
}

async function differences(
  core: Core,
  { before, after }: NonNullable<CommittedEvent['restored']>,
): Promise<WatchChange[]> {
  const changes: WatchChange[] = []
  for await (const step of treeChanges(core, before, after)) {
    const type = step.before === undefined || step.after === undefined ? 'rename' : 'change'
    changes.push({ type, path: step.path, removed: step.after === undefined })
  }
  return changes
}
