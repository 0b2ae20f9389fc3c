import type { VNode } from 'preact'
import { call, ofSession } from './api.js'
import { newestOf } from './events.js'
import { Name } from './format.js'
import { pageLimits } from './limits.js'
import { Failure, useLoaded } from './states.js'

/** A conflict of a merge: its path, and its kind, such as `content`. */
export interface Conflict {
  readonly path: string
  readonly kind: string
}

/** The first of some conflicts. `hasMore`: whether there are more than the given ones. */
export function ConflictList({
  conflicts,
  hasMore,
}: {
  readonly conflicts: readonly Conflict[]
  readonly hasMore: boolean
}): VNode {
  const left = conflicts.length - pageLimits.conflicts
  return (
    <ul>
      {conflicts.slice(0, pageLimits.conflicts).map(({ path, kind }) => (
        <li key={path}>
          <Name text={path} /> <span class="quiet">{kind}</span>
        </li>
      ))}
      {left > 0 && <li class="quiet">and {left} more</li>}
      {hasMore && <li class="quiet">and more</li>}
    </ul>
  )
}

/** The unresolved conflicts of the last merge or rebase. Shows nothing if there are none. */
export function OpenConflicts({ id }: { readonly id: string }): VNode | null {
  const { value, error } = useLoaded(
    (signal) =>
      call<{ conflicts: Conflict[]; nextPageToken: string }>(ofSession(id, '/conflicts'), {
        query: { pageSize: pageLimits.conflicts },
        signal,
      }),
    // Every change of the conflicts is an event.
    [id, newestOf(id)],
  )
  if (error !== undefined) return <Failure error={error} />
  if (value === undefined || value.conflicts.length === 0) return null
  return (
    <section class="conflicts" aria-label="Unresolved conflicts">
      <h2>Unresolved conflicts of the last merge</h2>
      <ConflictList conflicts={value.conflicts} hasMore={value.nextPageToken !== ''} />
    </section>
  )
}
