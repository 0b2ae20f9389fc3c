import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { changesFiles, eventsOf, labelOf, operationOf, pathsOf } from './events.js'
import { count, Name, shown, Time } from './format.js'
import { Rewind } from './rewind.js'
import { change, place } from './route.js'
import { Empty } from './states.js'
import type { SessionEvent } from './wire.js'
import { VirtualList } from './virtual-list.js'

/** The events of a session, the newest first. Choosing one shows the state after it in all views. */
export function TimelineView({ id }: { readonly id: string }): VNode {
  const log = eventsOf(id)
  const search = useSignal('')
  const words = search.value.toLowerCase()
  const events = log.events.value
    .filter((event) => words === '' || textOf(event).includes(words))
    .toReversed()
  const at = place.value.query.get('at') ?? log.events.value.at(-1)?.eventId
  const active = events.findIndex(({ eventId }) => eventId === at)
  const chosen = events[active]
  return (
    <div class="split">
      <div class="main">
        <div class="bar" role="search">
          <input
            type="search"
            aria-label="Search events by type, path or principal"
            placeholder="Search by type, path or principal"
            value={search.value}
            onInput={({ currentTarget }) => {
              search.value = currentTarget.value
            }}
          />
          <span class="quiet" role="status">
            {count(events.length, 'event')}
          </span>
        </div>
        {log.isLoaded.value && events.length === 0 ? (
          <Empty title="No event matches" />
        ) : (
          <VirtualList
            label="Events, the newest first"
            count={events.length}
            rowHeight={30}
            active={active}
            onMove={(index) => {
              const eventId = events[index]?.eventId
              const isNewest = eventId === log.events.value.at(-1)?.eventId
              change({ at: isNewest ? undefined : eventId }, true)
            }}
            onOpen={(index) => change({ at: events[index]?.eventId, tab: 'changes', from: 'before' })}
            row={(index) => {
              const event = events[index]
              return event === undefined ? null : <EventLine event={event} />
            }}
          />
        )}
      </div>
      <div class="side details">
        {chosen !== undefined && (
          <>
            <Details event={chosen} />
            <Rewind key={chosen.eventId} id={id} eventId={chosen.eventId} />
          </>
        )}
      </div>
    </div>
  )
}

function textOf(event: SessionEvent): string {
  return [labelOf(event), event.principal ?? '', ...pathsOf(event)].join('\n').toLowerCase()
}

const kinds: Readonly<Record<string, string>> = {
  CreateCheckpoint: 'checkpoint',
  Commit: 'commit',
  MergeSession: 'merge',
  RebaseSession: 'merge',
}

function EventLine({ event }: { readonly event: SessionEvent }): VNode {
  const paths = pathsOf(event)
  const [first] = paths
  const kind = kinds[operationOf(event)] ?? (changesFiles(event) ? 'changes' : 'other')
  return (
    <>
      <span class={`dot ${kind}`} />
      <span class="clip">{labelOf(event)}</span>
      <span class="grow clip path">
        {first !== undefined && <Name text={first} />}
        {paths.length > 1 && <span class="quiet"> and {paths.length - 1} more</span>}
      </span>
      <span class="quiet principal clip">
        <Name text={event.principal ?? ''} />
      </span>
      <span class="when">
        <Time at={event.timestamp} />
      </span>
    </>
  )
}

function Details({ event }: { readonly event: SessionEvent }): VNode {
  return (
    <dl>
      <dt>Event</dt>
      <dd>
        <code>{event.eventId}</code>
      </dd>
      <dt>Type</dt>
      <dd>
        <code>{event.eventType}</code>
      </dd>
      <dt>Principal</dt>
      <dd>
        <Name text={event.principal ?? ''} />
      </dd>
      <dt>Time</dt>
      <dd>
        <code>{event.timestamp}</code>
      </dd>
      <dt>Details</dt>
      <dd>
        <pre>
          <bdi>{JSON.stringify(event.details, null, 2).split('\n').map(shown).join('\n')}</bdi>
        </pre>
      </dd>
    </dl>
  )
}
