import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { info, messageOf, stream } from './api.js'
import { inBackground } from './background.js'
import { count, Id, Name, size } from './format.js'
import { Failure } from './states.js'
import { Table } from './table.js'

interface Finding {
  readonly problem: string
  readonly object: string
  readonly sessionId?: string
  readonly path?: string
  readonly message: string
}

interface Report {
  readonly findings: readonly Finding[]
  readonly found: number
  readonly sessions: number
  readonly events: number
  readonly nodes: number
  readonly blobs: number
  readonly readBytes: number
}

/** A line of the answer: the progress, then the report or an error. */
interface CheckLine {
  readonly looked?: number
  readonly report?: Report
  readonly error?: { readonly message: string }
}

/** Checks the store, if the page may do that. */
export function CheckPanel(): VNode {
  return (
    <section class="panel">
      <h2>Health of the store</h2>
      {info.value?.check === true ? (
        <Check />
      ) : (
        <p class="quiet">
          {info.value?.target === 'server' ? (
            <>
              A server has no operation that checks its store. Stop it, and run{' '}
              <code>forkspace check &lt;directory&gt;</code>.
            </>
          ) : (
            <>
              The program did not allow this page to check the store, which is that of all tenants. It can
              pass <code>check: true</code>, or call <code>engine.check()</code>.
            </>
          )}
        </p>
      )}
    </section>
  )
}

function Check(): VNode {
  const running = useRef<AbortController | undefined>(undefined)
  const looked = useSignal<number | undefined>(undefined)
  const report = useSignal<Report | undefined>(undefined)
  const failure = useSignal<string | undefined>(undefined)
  const readsData = useSignal(false)
  useEffect(() => () => running.current?.abort(), [])
  const run = async (): Promise<void> => {
    const abort = new AbortController()
    running.current = abort
    looked.value = 0
    report.value = undefined
    failure.value = undefined
    try {
      const query = { readData: String(readsData.value) }
      for await (const line of stream<CheckLine>('/check', query, abort.signal, 'POST')) {
        if (line.looked !== undefined) looked.value = line.looked
        report.value = line.report
        failure.value = line.error?.message
      }
      if (report.value === undefined) failure.value ??= 'The check ended without a result.'
    } catch (error) {
      if (!abort.signal.aborted) failure.value = messageOf(error)
    }
    looked.value = undefined
  }
  const isRunning = looked.value !== undefined
  return (
    <>
      <div class="buttons">
        <button type="button" disabled={isRunning} onClick={() => inBackground(run())}>
          Check the store
        </button>
        {isRunning && (
          <button type="button" onClick={() => running.current?.abort()}>
            Stop
          </button>
        )}
        <label>
          <input
            type="checkbox"
            checked={readsData.value}
            disabled={isRunning}
            onChange={({ currentTarget }) => {
              readsData.value = currentTarget.checked
            }}
          />{' '}
          and read every content
        </label>
      </div>
      <p role="status" class="quiet">
        {isRunning ? `Checking: ${count(looked.value ?? 0, 'object')} so far …` : summaryOf(report.value)}
      </p>
      {failure.value !== undefined && <Failure error={failure.value} />}
      {report.value !== undefined && report.value.found > 0 && (
        <Table
          title="Problems"
          none=""
          heads={['Problem', 'Object', 'Session', 'Path', 'Message']}
          rows={report.value.findings.map((finding) => [
            <span class="badge warn">
              <Name text={finding.problem} />
            </span>,
            <Name text={finding.object} />,
            finding.sessionId === undefined ? '' : <Id id={finding.sessionId} />,
            <Name text={finding.path ?? ''} />,
            <Name text={finding.message} />,
          ])}
        />
      )}
    </>
  )
}

function summaryOf(report: Report | undefined): string {
  if (report === undefined)
    return 'A check of all tenants. It changes nothing, and other work goes on meanwhile.'
  const { found, findings, sessions, events, nodes, blobs, readBytes } = report
  const shown = found > findings.length ? `, of which the first ${findings.length} follow` : ''
  const problems = found === 0 ? 'No problem found' : `${count(found, 'problem')} found${shown}`
  const read = readBytes === 0 ? '' : ` ${size(readBytes)} of contents were read.`
  const checked = [
    count(sessions, 'session'),
    count(events, 'event'),
    count(nodes, 'node'),
    count(blobs, 'blob'),
  ].join(', ')
  return `${problems}. Checked: ${checked}.${read}`
}
