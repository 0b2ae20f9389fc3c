import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useAction } from './action.js'
import { call, info, ofSession, pages } from './api.js'
import { ConflictList, type Conflict } from './conflict-list.js'
import { newestOf, refreshEvents } from './events.js'
import { count, Id, Name } from './format.js'
import { pageLimits } from './limits.js'
import { linkTo } from './route.js'
import { byId, sessions, titleOf } from './sessions.js'
import { Empty, Failure, Show, useLoaded } from './states.js'
import { VirtualList } from './virtual-list.js'
import type { ChangedFile } from './wire.js'

const letters: Readonly<Record<string, string>> = { added: 'A', modified: 'M', removed: 'D', renamed: 'R' }

interface MergePreview {
  readonly changeCount: number
  readonly conflicts: readonly Conflict[]
}

/** The forks of a session side by side: the paths that each of them changed, and a preview of a merge. */
export function CompareView({ id }: { readonly id: string }): VNode {
  const forks = sessions.value
    .filter(({ parent }) => parent?.sessionId === id)
    .slice(-pageLimits.comparedForks)
  const ids = forks.map((fork) => fork.id)
  const loaded = useLoaded(
    async (signal) => {
      const changes = await Promise.all(ids.map((fork) => changesOf(fork, signal)))
      const paths = [...new Set(changes.flatMap((one) => [...one.keys()]))].sort()
      return { changes, paths }
    },
    [ids.join(' ')],
  )
  if (forks.length === 0)
    return <Empty title="The session has no forks">Forks of it can be compared here, path by path.</Empty>
  return (
    <div class="column compare">
      <div class="forks">
        {forks.map((fork, index) => {
          const files = [...(loaded.value?.changes[index]?.values() ?? [])]
          return (
            <section key={fork.id} class="panel" aria-label={titleOf(fork)}>
              <h2 class="clip">
                <a href={linkTo(['session', fork.id], { tab: 'changes', from: 'parent' })}>
                  <bdi>{titleOf(fork)}</bdi> <Id id={fork.id} />
                </a>
              </h2>
              <p>
                {count(files.length, 'file')}{' '}
                <span class="added">+{files.reduce((sum, file) => sum + file.additions, 0)}</span>{' '}
                <span class="removed">−{files.reduce((sum, file) => sum + file.deletions, 0)}</span>
              </p>
              <MergeOf source={fork.id} target={id} />
            </section>
          )
        })}
      </div>
      <Show loaded={loaded}>
        {({ changes, paths }) => (
          <VirtualList
            label="Changed paths, with the forks that changed them"
            role="document"
            count={paths.length}
            rowHeight={26}
            row={(index) => {
              const path = paths[index] ?? ''
              const by = changes.filter((one) => one.has(path)).length
              return (
                <>
                  {changes.map((one, fork) => {
                    const file = one.get(path)
                    const kind = file?.change ?? ''
                    return (
                      <span key={ids[fork]} class={`cell letter ${kind}`}>
                        {file === undefined ? '·' : letters[kind]}
                        <span class="heard">{` ${kind === '' ? 'unchanged' : kind} in fork ${fork + 1}`}</span>
                      </span>
                    )
                  })}
                  <span class={by > 1 ? 'grow clip path strong' : 'grow clip path'}>
                    <Name text={path} />
                  </span>
                  {by > 1 && <span class="badge warn">{by} forks</span>}
                </>
              )
            }}
          />
        )}
      </Show>
    </div>
  )
}

/** What a fork changed since its start, by paths. */
async function changesOf(id: string, signal: AbortSignal): Promise<ReadonlyMap<string, ChangedFile>> {
  const changes = new Map<string, ChangedFile>()
  const from = byId.value.get(id)?.parent ?? { base: true }
  for await (const page of pages<{ files: ChangedFile[]; nextPageToken: string }>(
    ofSession(id, ':diffFiles'),
    {
      method: 'POST',
      body: { from, pageSize: pageLimits.pageEntries },
      signal,
    },
  )) {
    for (const file of page.files) changes.set(file.path, file)
    if (changes.size > pageLimits.marks) break
  }
  return changes
}

/** A merge of the newest state of a fork, as it was previewed. */
interface MergePlan {
  readonly body: object
  readonly preview: MergePreview
}

/** Previews a merge of a fork. With the option `write`, it also carries it out. */
function MergeOf({ source, target }: { readonly source: string; readonly target: string }): VNode {
  const plan = useSignal<MergePlan | undefined>(undefined)
  const said = useSignal('')
  const { failure, isBusy, run } = useAction()
  const merge = async (body: object): Promise<MergePreview> =>
    call<MergePreview>(ofSession(target, ':merge'), { method: 'POST', body })
  const say = (start: string, { changeCount, conflicts }: MergePreview): void => {
    said.value = `${start} ${count(changeCount, 'path')}, with ${count(conflicts.length, 'conflict')}.`
  }
  const prepare = async (): Promise<void> => {
    plan.value = undefined
    await Promise.all([refreshEvents(source), refreshEvents(target)])
    // The merge is refused if the session has changed since, and takes the state of the fork that was previewed.
    const [eventId, expectedEventId] = [newestOf(source), newestOf(target)]
    const body = { source: { sessionId: source, eventId }, expectedEventId }
    const preview = await merge({ ...body, dryRun: true })
    plan.value = { body, preview }
    say('A merge would change', preview)
  }
  const carryOut = async ({ body }: MergePlan): Promise<void> => {
    plan.value = undefined
    say('The merge changed', await merge(body))
    await refreshEvents(target)
  }
  const conflicts = plan.value?.preview.conflicts ?? []
  return (
    <div>
      <div class="buttons">
        <button type="button" disabled={isBusy} onClick={() => run(prepare)}>
          Preview a merge
        </button>
        {plan.value !== undefined && info.value?.write === true && (
          <button
            type="button"
            disabled={isBusy}
            onClick={() => {
              const chosen = plan.value
              if (chosen !== undefined) run(() => carryOut(chosen))
            }}
          >
            Merge
          </button>
        )}
      </div>
      {failure !== undefined && <Failure error={failure} />}
      <p class="quiet" role="status">
        {said.value}
      </p>
      {conflicts.length > 0 && <ConflictList conflicts={conflicts} hasMore={false} />}
    </div>
  )
}
