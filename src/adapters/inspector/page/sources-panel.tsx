import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect } from 'preact/hooks'
import { call, messageOf } from './api.js'
import { inBackground } from './background.js'
import { count, Id, Name, size, Time } from './format.js'
import { pageLimits } from './limits.js'
import { StatusText } from './review-view.js'
import { Show, type Loaded } from './states.js'
import { Table } from './table.js'

interface Source {
  readonly sourceId: string
  readonly displayName: string
  readonly kind: string
  readonly status: string
  readonly latestRevisionId: string
  readonly updatedAt: string
}

interface Job {
  readonly jobId: string
  readonly state: string
  readonly createdAt: string
  readonly startedAt: string
  readonly completedAt: string
  readonly errorCode: string
  readonly errorMessage: string
  readonly bytesProcessed: string
  readonly filesProcessed: string
}

/** A page of the sources, with the newest jobs of each by their ids. */
interface Imports {
  readonly sources: readonly Source[]
  readonly jobs: ReadonlyMap<string, readonly Job[]>
  readonly nextPageToken: string
}

/** The sources of the tenant and their jobs. They follow jobs that run. */
export function SourcesPanel(): VNode {
  /** The tokens of the pages up to the one in view. */
  const tokens = useSignal<readonly string[]>([''])
  return (
    <Show loaded={useImports(tokens.value.at(-1) ?? '')}>
      {({ sources, jobs, nextPageToken }) => {
        const all = sources.flatMap((source) =>
          (jobs.get(source.sourceId) ?? []).map((job) => ({ source, job })),
        )
        return (
          <>
            <Table
              title="Sources"
              none="There are no sources. Sessions can start from files without one."
              heads={['Status', 'Name', 'Kind', 'Latest revision', 'Changed']}
              rows={sources.map((source) => [
                <StatusText status={source.status} />,
                <Name text={source.displayName} />,
                source.kind.replace('UNDERLAY_SOURCE_KIND_', '').replaceAll('_', ' ').toLowerCase(),
                <Id id={source.latestRevisionId} />,
                <Time at={source.updatedAt} />,
              ])}
            />
            {(nextPageToken !== '' || tokens.value.length > 1) && (
              <div class="bar">
                <button
                  type="button"
                  disabled={tokens.value.length === 1}
                  onClick={() => {
                    tokens.value = tokens.value.slice(0, -1)
                  }}
                >
                  Earlier sources
                </button>
                <span class="grow" role="status">
                  {sourcesInView((tokens.value.length - 1) * pageLimits.sources, sources.length)}
                </span>
                <button
                  type="button"
                  disabled={nextPageToken === ''}
                  onClick={() => {
                    tokens.value = [...tokens.value, nextPageToken]
                  }}
                >
                  Later sources
                </button>
              </div>
            )}
            <p class="heard" role="status">
              {count(all.filter(({ job }) => !hasEnded(job)).length, 'import')} not finished
            </p>
            <Table
              title="Imports"
              none="Nothing was imported."
              heads={['State', 'Source', 'Read', 'Requested', 'Started', 'Ended', 'Error']}
              rows={all.map(({ source, job }) => [
                <StatusText status={job.state} />,
                <Name text={source.displayName} />,
                `${count(Number(job.filesProcessed), 'file')}, ${size(Number(job.bytesProcessed))}`,
                <Time at={job.createdAt} />,
                job.startedAt === '' ? '' : <Time at={job.startedAt} />,
                job.completedAt === '' ? '' : <Time at={job.completedAt} />,
                job.errorCode === '' ? (
                  ''
                ) : (
                  <>
                    <Name text={job.errorMessage} />{' '}
                    <span class="quiet">
                      <Name text={job.errorCode} />
                    </span>
                  </>
                ),
              ])}
            />
          </>
        )
      }}
    </Show>
  )
}

function sourcesInView(before: number, count: number): string {
  const number = (value: number): string => value.toLocaleString('en')
  return `Sources ${number(before + 1)} to ${number(before + count)}`
}

/** Reads a page of the sources and their jobs, and again while the page is in view. */
function useImports(pageToken: string): Loaded<Imports> {
  const state = useSignal<Loaded<Imports>>({ value: undefined, error: undefined, isLoading: true })
  useEffect(() => {
    const abort = new AbortController()
    const { signal } = abort
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async (round: number): Promise<void> => {
      if (document.visibilityState === 'visible' || round === 0) {
        try {
          const isWhole = round % pageLimits.idleRounds === 0
          const value = await readImports({ before: state.peek().value, isWhole, pageToken, signal })
          if (!signal.aborted) state.value = { value, error: undefined, isLoading: false }
        } catch (error) {
          if (!signal.aborted) state.value = { value: undefined, error: messageOf(error), isLoading: false }
        }
      }
      if (!signal.aborted) timer = setTimeout(() => inBackground(look(round + 1)), pageLimits.pollMs)
    }
    inBackground(look(0))
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [pageToken])
  return state.value
}

/** Reads all jobs of a page of the sources, or only those of sources that are new or have a job that has not ended. */
async function readImports({
  before,
  isWhole,
  pageToken,
  signal,
}: {
  readonly before: Imports | undefined
  readonly isWhole: boolean
  readonly pageToken: string
  readonly signal: AbortSignal
}): Promise<Imports> {
  const { sources, nextPageToken } = await call<{ sources: Source[]; nextPageToken: string }>('/v1/sources', {
    query: { pageSize: pageLimits.sources, pageToken },
    signal,
  })
  const jobs = await Promise.all(
    sources.map(async ({ sourceId }): Promise<readonly [string, readonly Job[]]> => {
      const known = before?.jobs.get(sourceId)
      if (!isWhole && known?.every(hasEnded) === true) return [sourceId, known]
      const page = await call<{ jobs: Job[] }>(`/v1/sources/${encodeURIComponent(sourceId)}/jobs`, {
        query: { pageSize: pageLimits.jobsOfSource },
        signal,
      })
      return [sourceId, page.jobs]
    }),
  )
  return { sources, jobs: new Map(jobs), nextPageToken }
}

function hasEnded({ completedAt }: Job): boolean {
  return completedAt !== ''
}
