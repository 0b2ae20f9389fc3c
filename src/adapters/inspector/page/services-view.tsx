import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { bytesOf, call, ofSession, stream } from './api.js'
import { inBackground } from './background.js'
import { eventsOf, operationOf } from './events.js'
import { Name, size, Time } from './format.js'
import { pageLimits } from './limits.js'
import { StatusText } from './review-view.js'
import { Show, useLoaded } from './states.js'
import { Bars, Figures, Table } from './table.js'
import { version } from './version.js'

interface Lock {
  readonly path: string
  readonly ownerId: string
  readonly remainingTtlSeconds: string
}

interface Message {
  readonly messageId: string
  readonly topic: string
  readonly payload: string
  readonly senderId: string
  readonly publishedAt: string
}

interface CacheEntry {
  readonly key: string
  readonly sizeBytes: string
  readonly updatedAt: string
  readonly expiresAt: string
}

interface Report {
  readonly status: string
  readonly testsPassed: number
  readonly testsFailed: number
  readonly testsSkipped: number
  readonly lastUpdatedAt: string
  readonly reportedBy: string
}

/** Locks, messages, the cache and the names of secrets. */
export function ServicesView({ id }: { readonly id: string }): VNode {
  const loaded = useLoaded(
    async (signal) => {
      const [{ locks }, { keys }, stats, { secrets }] = await Promise.all([
        call<{ locks: Lock[] }>(ofSession(id, '/files/list-locks'), { method: 'POST', body: {}, signal }),
        call<{ keys: string[] }>(ofSession(id, '/cache/keys'), {
          query: { pageSize: pageLimits.cacheKeys },
          signal,
        }),
        call<{ entryCount: number; sizeBytes: string; hitCount: string; missCount: string }>(
          ofSession(id, '/cache/stats'),
          { signal },
        ),
        call<{ secrets: { secretName: string }[] }>(ofSession(id, '/secrets'), { signal }),
      ])
      const entries = await Promise.all(
        keys.map((key) =>
          call<CacheEntry>(ofSession(id, `/cache/${encodeURIComponent(key)}/metadata`), { signal }).catch(
            () => undefined,
          ),
        ),
      )
      return { locks, stats, secrets, entries: entries.filter((entry) => entry !== undefined) }
    },
    [id, version.value],
  )
  return (
    <div class="panels">
      <Show loaded={loaded}>
        {({ locks, stats, secrets, entries }) => (
          <>
            <Table
              title="File locks"
              none="No path is locked."
              heads={['Path', 'Owner', 'Ends in']}
              rows={locks.map((lock) => [
                <Name text={lock.path} />,
                <Name text={lock.ownerId} />,
                `${lock.remainingTtlSeconds} s`,
              ])}
            />
            <Messages id={id} />
            <Figures
              title="Cache"
              figures={[
                ['entries', stats.entryCount.toLocaleString('en')],
                ['size', size(Number(stats.sizeBytes))],
                ['hits', stats.hitCount],
                ['misses', stats.missCount],
              ]}
            />
            <Table
              title={
                stats.entryCount > entries.length && entries.length === pageLimits.cacheKeys
                  ? `The first ${entries.length} entries of the cache`
                  : 'Entries of the cache'
              }
              none="The cache is empty."
              heads={['Key', 'Size', 'Changed', 'Ends']}
              rows={entries.map((entry) => [
                <Name text={entry.key} />,
                size(Number(entry.sizeBytes)),
                <Time at={entry.updatedAt} />,
                entry.expiresAt === '' ? 'never' : <Time at={entry.expiresAt} />,
              ])}
            />
            <Table
              title="Secrets"
              none="The session has no secrets."
              heads={['Name']}
              rows={secrets.map(({ secretName }) => [<Name text={secretName} />])}
            />
          </>
        )}
      </Show>
    </div>
  )
}

/** The newest messages of the bus, and each one that follows. */
function Messages({ id }: { readonly id: string }): VNode {
  const messages = useSignal<readonly Message[]>([])
  useEffect(() => {
    const abort = new AbortController()
    const read = async (): Promise<void> => {
      messages.value = []
      const items = stream<{ result?: Message }>(
        ofSession(id, '/bus'),
        { replayLimit: pageLimits.messages },
        abort.signal,
      )
      for await (const { result } of items)
        if (result !== undefined) messages.value = [result, ...messages.value].slice(0, pageLimits.messages)
    }
    const follow = async (): Promise<void> => {
      while (!abort.signal.aborted) {
        // A lost stream is opened again, and repeats the messages that are kept.
        await read().catch(() => undefined)
        await new Promise((go) => setTimeout(go, pageLimits.reconnectMs))
      }
    }
    inBackground(follow())
    return () => abort.abort()
  }, [id])
  return (
    <Table
      title="Messages"
      none="No message is kept. New ones appear here."
      heads={['Topic', 'Payload', 'Sender', 'Time']}
      rows={messages.value.map((message) => [
        <Name text={message.topic} />,
        <code class="clip">
          <Name
            text={new TextDecoder().decode(bytesOf(message.payload)).slice(0, pageLimits.payloadCharacters)}
          />
        </code>,
        <Name text={message.senderId} />,
        <Time at={message.publishedAt} />,
      ])}
    />
  )
}

/** Counters, kinds of events and test reports. */
export function FiguresView({ id }: { readonly id: string }): VNode {
  const { events } = eventsOf(id)
  const loaded = useLoaded(
    async (signal) => {
      const [analytics, { reports }] = await Promise.all([
        call<{
          timeToFirstWriteMs: string
          totalFileMutations: string
          checkpointCount: string
          restoreCount: string
          lastReportedHealth: Report
        }>(ofSession(id, '/analytics'), { signal }),
        call<{ reports: Report[] }>(ofSession(id, '/health/reports'), { query: { pageSize: 100 }, signal }),
      ])
      return { analytics, reports }
    },
    [id, events.value.length],
  )
  const kinds = new Map<string, number>()
  const principals = new Map<string, number>()
  for (const event of events.value) {
    kinds.set(operationOf(event), (kinds.get(operationOf(event)) ?? 0) + 1)
    const by = event.principal ?? ''
    principals.set(by, (principals.get(by) ?? 0) + 1)
  }
  const bars = (counts: ReadonlyMap<string, number>): { name: string; value: number }[] =>
    [...counts].sort((one, other) => other[1] - one[1]).map(([name, value]) => ({ name, value }))
  return (
    <div class="panels">
      <Show loaded={loaded}>
        {({ analytics, reports }) => (
          <>
            <Figures
              title="Activity"
              figures={[
                ['changes of files', analytics.totalFileMutations],
                ['checkpoints', analytics.checkpointCount],
                ['restores', analytics.restoreCount],
                ['until the first write', `${Number(analytics.timeToFirstWriteMs).toLocaleString('en')} ms`],
                ['tests', <StatusText status={analytics.lastReportedHealth.status} />],
              ]}
            />
            <Bars title="Events by type" bars={bars(kinds).slice(0, 12)} />
            <Bars title="Events by principal" bars={bars(principals).slice(0, 12)} />
            <Table
              title="Test reports"
              none="No test report was sent."
              heads={['Status', 'Passed', 'Failed', 'Skipped', 'By', 'Time']}
              rows={reports
                .toReversed()
                .map((report) => [
                  <StatusText status={report.status} />,
                  report.testsPassed,
                  report.testsFailed,
                  report.testsSkipped,
                  <Name text={report.reportedBy} />,
                  <Time at={report.lastUpdatedAt} />,
                ])}
            />
          </>
        )}
      </Show>
    </div>
  )
}
