import { inBackground } from './background.js'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { call, messageOf, ofSession, stream } from './api.js'
import { CompareView } from './compare-view.js'
import { OpenConflicts } from './conflict-list.js'
import { DiffView } from './diff-view.js'
import { eventsOf, newestOf, refreshEvents } from './events.js'
import { FilesView } from './files-view.js'
import { Id } from './format.js'
import { Status, Tags } from './graph-view.js'
import { pageLimits } from './limits.js'
import { change, linkTo, place } from './route.js'
import { byId, titleOf } from './sessions.js'
import { ReviewView } from './review-view.js'
import { Scrubber } from './scrubber.js'
import { FiguresView, ServicesView } from './services-view.js'
import { Failure, Show, useLoaded } from './states.js'
import { TimelineView } from './timeline-view.js'
import { version } from './version.js'
import type { Session } from './wire.js'

const tabs = [
  { name: 'files', title: 'Files', view: FilesView },
  { name: 'changes', title: 'Changes', view: DiffView },
  { name: 'timeline', title: 'Timeline', view: TimelineView },
  { name: 'forks', title: 'Forks', view: CompareView },
  { name: 'review', title: 'Review', view: ReviewView },
  { name: 'services', title: 'Services', view: ServicesView },
  { name: 'figures', title: 'Figures', view: FiguresView },
] as const

/** One session: its files, its changes and its history. */
export function SessionView({ id }: { readonly id: string }): VNode {
  const loaded = useLoaded(
    async (signal) => byId.peek().get(id) ?? (await call<Session>(ofSession(id), { signal })),
    [id],
  )
  useFollowed(id)
  const tab = place.value.query.get('tab') ?? 'files'
  const current = tabs.find(({ name }) => name === tab) ?? tabs[0]
  const View = current.view
  return (
    <main class="session">
      <Show loaded={loaded}>
        {(first) => {
          const session = byId.value.get(id) ?? first
          const error = eventsOf(id).error.value
          return (
            <>
              <header class="bar">
                <h1 class="clip">
                  <bdi>{titleOf(session)}</bdi> <Id id={session.id} />
                </h1>
                <Status status={session.status} />
                <Tags tags={session.tags} />
                <span class="grow" />
                {session.parent !== undefined && (
                  <a href={linkTo(['session', session.parent.sessionId], { at: session.parent.eventId })}>
                    fork of <Id id={session.parent.sessionId} />
                  </a>
                )}
              </header>
              {error !== undefined && <Failure error={messageOf(error)} />}
              <OpenConflicts id={id} />
              <Tabs current={current.name} />
              <Scrubber id={id} />
              <div class="view" role="tabpanel" id="view" aria-label={current.title}>
                <View id={id} />
              </div>
            </>
          )
        }}
      </Show>
    </main>
  )
}

function Tabs({ current }: { readonly current: string }): VNode {
  const go = (by: number): void => {
    const index = tabs.findIndex(({ name }) => name === current)
    const next = tabs[(index + by + tabs.length) % tabs.length]
    if (next === undefined) return
    change({ tab: next.name })
    document.getElementById(`tab-${next.name}`)?.focus()
  }
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label="Views of the session"
      onKeyDown={({ key }) => {
        if (key === 'ArrowRight') go(1)
        else if (key === 'ArrowLeft') go(-1)
      }}
    >
      {tabs.map(({ name, title }) => (
        <button
          key={name}
          type="button"
          id={`tab-${name}`}
          role="tab"
          aria-selected={name === current}
          aria-controls="view"
          tabIndex={name === current ? 0 : -1}
          onClick={() => change({ tab: name })}
        >
          {title}
        </button>
      ))}
    </div>
  )
}

/** Reads new events. If there are any, the views read their state again. */
async function refresh(id: string): Promise<void> {
  const before = newestOf(id)
  await refreshEvents(id)
  if (newestOf(id) !== before) version.value++
}

/** Reads the events of the session, and follows its changes with the event stream of the server. */
function useFollowed(id: string): void {
  useEffect(() => {
    const abort = new AbortController()
    const follow = async (): Promise<void> => {
      for (let after: string | undefined; !abort.signal.aborted;) {
        try {
          await refresh(id)
          after ??= newestOf(id)
          for await (const { result } of stream<{ result?: { eventId: string } }>(
            ofSession(id, '/watch'),
            { debounceMs: 50, afterEventId: after },
            abort.signal,
          )) {
            if (result === undefined) break
            after = result.eventId
            await refresh(id)
          }
        } catch {
          after = undefined
        }
        await new Promise((go) => setTimeout(go, pageLimits.reconnectMs))
      }
    }
    inBackground(follow())
    // Checkpoints, merges and commits change no files, so the stream does not report them.
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') inBackground(refresh(id))
    }, pageLimits.pollMs)
    return () => {
      abort.abort()
      clearInterval(timer)
    }
  }, [id])
}
