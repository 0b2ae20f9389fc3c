import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useAction } from './action.js'
import { call, info, ofSession } from './api.js'
import { count, Name, Time } from './format.js'
import { linkTo } from './route.js'
import { Failure, Show, useLoaded } from './states.js'
import { Table } from './table.js'
import { version } from './version.js'

interface Approval {
  readonly approvalId: string
  readonly reason: string
  readonly summary: string
  readonly changedFiles: readonly string[]
  readonly status: string
  readonly requestedBy: string
  readonly createdAt: string
  readonly decidedBy: string
  readonly feedback: string
}

interface Annotation {
  readonly id: string
  readonly filePath: string
  readonly lineNumber: number
  readonly comment: string
  readonly reviewerId: string
  readonly status: string
  readonly createdAt: string
}

interface Commit {
  readonly commitId: string
  readonly branchName: string
  readonly message: string
  readonly committedAt: string
}

/** Approvals with their decisions, notes on files, and commits. */
export function ReviewView({ id }: { readonly id: string }): VNode {
  const decided = useSignal(0)
  const { failure, isBusy, run } = useAction()
  const loaded = useLoaded(
    async (signal) => {
      const [{ approvals }, { annotations }, { commits }] = await Promise.all([
        call<{ approvals: Approval[] }>(ofSession(id, '/approvals'), { signal }),
        call<{ annotations: Annotation[] }>(ofSession(id, '/annotations'), { signal }),
        // Without the git adapter there are no commits.
        call<{ commits: Commit[] }>(ofSession(id, '/commits'), { query: { pageSize: 100 }, signal }).catch(
          () => ({
            commits: [],
          }),
        ),
      ])
      return { approvals, annotations, commits }
    },
    [id, version.value, decided.value],
  )
  const decide = (approvalId: string, verb: string, feedback: string): void => {
    const path = ofSession(id, `/approvals/${encodeURIComponent(approvalId)}/${verb}`)
    const body = verb === 'deny' ? { feedback } : {}
    run(async () => {
      try {
        await call(path, { method: 'POST', body })
      } finally {
        decided.value++
      }
    })
  }
  return (
    <div class="panels">
      {failure !== undefined && <Failure error={failure} />}
      <Show loaded={loaded}>
        {({ approvals, annotations, commits }) => (
          <>
            <Table
              title="Approvals"
              none="No approval was requested."
              heads={['Status', 'Reason', 'Summary', 'Requested', 'Decision']}
              rows={approvals.map((one) => [
                <StatusText status={one.status} />,
                <Name text={one.reason} />,
                <>
                  <Name text={one.summary} />
                  {one.changedFiles.length > 0 && (
                    <span class="quiet"> {count(one.changedFiles.length, 'file')}</span>
                  )}
                </>,
                <>
                  <Name text={one.requestedBy} /> <Time at={one.createdAt} />
                </>,
                one.status === 'APPROVAL_STATUS_PENDING' ? (
                  info.value?.write === true ? (
                    <Decision
                      isBusy={isBusy}
                      decide={(verb, feedback) => decide(one.approvalId, verb, feedback)}
                    />
                  ) : (
                    <span class="quiet">open for reading only</span>
                  )
                ) : (
                  <>
                    <Name text={one.decidedBy} /> <Name text={one.feedback} />
                  </>
                ),
              ])}
            />
            <Table
              title="Annotations"
              none="There are no notes on files."
              heads={['Status', 'Place', 'Comment', 'Reviewer', 'Time']}
              rows={annotations.map((one) => [
                <StatusText status={one.status} />,
                <a href={linkTo(['session', id], { path: one.filePath })}>
                  <Name text={one.filePath} />
                  {one.lineNumber > 0 ? `:${one.lineNumber}` : ''}
                </a>,
                <Name text={one.comment} />,
                <Name text={one.reviewerId} />,
                <Time at={one.createdAt} />,
              ])}
            />
            <Table
              title="Commits"
              none="The session has no commits."
              heads={['Commit', 'Branch', 'Message', 'Time']}
              rows={commits.map((one) => [
                <code>{one.commitId.slice(0, 12)}</code>,
                <Name text={one.branchName} />,
                <Name text={one.message.split('\n')[0] ?? ''} />,
                <Time at={one.committedAt} />,
              ])}
            />
          </>
        )}
      </Show>
    </div>
  )
}

function Decision({
  isBusy,
  decide,
}: {
  readonly isBusy: boolean
  readonly decide: (verb: 'grant' | 'deny', feedback: string) => void
}): VNode {
  const feedback = useSignal('')
  return (
    <span class="buttons">
      <button type="button" disabled={isBusy} onClick={() => decide('grant', '')}>
        Grant
      </button>
      <input
        type="text"
        aria-label="Feedback for a denial"
        placeholder="feedback"
        value={feedback.value}
        onInput={({ currentTarget }) => {
          feedback.value = currentTarget.value
        }}
      />
      <button type="button" disabled={isBusy} onClick={() => decide('deny', feedback.value)}>
        Deny
      </button>
    </span>
  )
}

/** The last word of a status. */
export function StatusText({ status }: { readonly status: string }): VNode {
  const text = status.split('_').at(-1)?.toLowerCase() ?? ''
  const isOpen = ['pending', 'open', 'failing', 'failed', 'running'].includes(text)
  return <span class={isOpen ? 'badge warn' : 'badge'}>{text}</span>
}
