import type { VNode } from 'preact'
import { call } from './api.js'
import { CheckPanel } from './check-panel.js'
import { size } from './format.js'
import { pageLimits } from './limits.js'
import { sessions } from './sessions.js'
import { SourcesPanel } from './sources-panel.js'
import { Show, useLoaded } from './states.js'
import { Bars, Figures } from './table.js'

interface Usage {
  readonly windowStart: string
  readonly sessionHours: number
  readonly egressGb: number
}

/** The last days, in UTC, the newest first. */
function lastDays(): { windowStart: string; windowEnd: string }[] {
  const now = new Date()
  const day = (ago: number): string =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - ago)).toISOString()
  return Array.from({ length: pageLimits.usageDays }, (_, ago) => ({
    windowStart: day(ago),
    windowEnd: day(ago - 1),
  }))
}

/** The sources of the tenant with their imports, the health of the store, the storage and the usage. */
export function StoreView(): VNode {
  const loaded = useLoaded(async (signal) => {
    const [metrics, usage] = await Promise.all([
      call<{ objectCount: string; storedBytes: string; logicalBytes: string; dedupRatio: number }>(
        '/v1/metrics/cas',
        {
          signal,
        },
      ),
      Promise.all(
        lastDays().map(({ windowStart, windowEnd }) =>
          call<Usage>('/v1/usage', { query: { windowStart, windowEnd }, signal }),
        ),
      ),
    ])
    return { usage, metrics }
  }, [])
  return (
    <main class="panels">
      <h1>Store</h1>
      <SourcesPanel />
      <CheckPanel />
      <Show loaded={loaded}>
        {({ usage, metrics }) => (
          <>
            <Figures
              title="Storage"
              figures={[
                ['contents', Number(metrics.objectCount).toLocaleString('en')],
                ['stored', size(Number(metrics.storedBytes))],
                ['without sharing', size(Number(metrics.logicalBytes))],
                ['ratio', metrics.dedupRatio.toFixed(2)],
                ['sessions', sessions.value.length.toLocaleString('en')],
              ]}
            />
            <Bars
              title="Bytes"
              bars={[
                { name: 'stored', value: Number(metrics.storedBytes) },
                { name: 'without sharing', value: Number(metrics.logicalBytes) },
              ]}
            />
            <Bars
              title="Hours of sessions by day"
              bars={usage.map((day) => ({
                name: day.windowStart.slice(0, 10),
                value: Math.round(day.sessionHours * 100) / 100,
              }))}
            />
            <Bars
              title="Bytes sent to clients by day"
              bars={usage.map((day) => ({
                name: day.windowStart.slice(0, 10),
                value: Math.round(day.egressGb * 1e9),
              }))}
            />
          </>
        )}
      </Show>
    </main>
  )
}
