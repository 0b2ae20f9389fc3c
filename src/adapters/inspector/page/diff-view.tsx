import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { ApiError, call, ofSession, pages } from './api.js'
import { eventsOf, labelOf, operationOf, refreshEvents } from './events.js'
import { count, Name, shortId } from './format.js'
import { Hunks, type Note } from './hunks.js'
import { pageLimits } from './limits.js'
import { change, place } from './route.js'
import { byId } from './sessions.js'
import { chosenState, stateOf } from './state-choice.js'
import { Empty, Show, useLoaded } from './states.js'
import { version } from './version.js'
import type { ChangedFile, StateName } from './wire.js'
import { VirtualList } from './virtual-list.js'

const letters: Readonly<Record<string, string>> = { added: 'A', modified: 'M', removed: 'D', renamed: 'R' }

/** The changed files between two states of any sessions, and the lines of the chosen one. */
export function DiffView({ id }: { readonly id: string }): VNode {
  const { query } = place.value
  const at = query.get('at') ?? ''
  const from = query.get('from') ?? 'base'
  const moment = at === '' || from.includes('@') ? version.value : 0
  const loaded = useLoaded(
    async (signal) => {
      const found: ChangedFile[] = []
      let isComplete = true
      for await (const page of pages<{ files: ChangedFile[]; nextPageToken: string }>(
        ofSession(id, ':diffFiles'),
        {
          method: 'POST',
          body: { ...(await statesOf(id, from, at)), pageSize: pageLimits.pageEntries },
          signal,
        },
      )) {
        found.push(...page.files)
        isComplete = page.nextPageToken === ''
        if (found.length > pageLimits.marks) break
      }
      return { files: found, isComplete }
    },
    [id, from, at, moment],
  )
  const files = loaded.value?.files ?? []
  const active = Math.max(
    0,
    files.findIndex(({ path }) => path === query.get('file')),
  )
  const file = files[active]
  return (
    <div class="column">
      <FromBar id={id} from={from} files={files} />
      <Show loaded={loaded}>
        {({ isComplete }) =>
          files.length === 0 ? (
            <Empty title="No differences">Both states have the same files.</Empty>
          ) : (
            <div class="split">
              <div class="side">
                <VirtualList
                  label={`Changed files${isComplete ? '' : ', the first ones'}`}
                  count={files.length}
                  rowHeight={24}
                  active={active}
                  onMove={(index) => change({ file: files[index]?.path }, true)}
                  row={(index) => {
                    const one = files[index]
                    return one === undefined ? null : <FileLine file={one} />
                  }}
                />
              </div>
              <div class="main">
                {file !== undefined && (
                  <FileDiff key={file.path} id={id} file={file} from={from} at={at} moment={moment} />
                )}
              </div>
            </div>
          )
        }
      </Show>
    </div>
  )
}

/** The states to compare, as the server takes them. */
async function statesOf(id: string, from: string, at: string): Promise<{ from: object; to: StateName }> {
  const to = chosenState()
  if (from === 'before') {
    const { events, isLoaded } = eventsOf(id)
    // The page may have been opened at this place.
    if (!isLoaded.peek()) await refreshEvents(id)
    const known = events.peek()
    const index = at === '' ? known.length - 1 : known.findIndex(({ eventId }) => eventId === at)
    if (index < 0) throw new ApiError(404, 'EVENT_NOT_FOUND', 'The page does not know the event.')
    const before = known[index - 1]
    return { from: before === undefined ? { base: true } : { eventId: before.eventId }, to }
  }
  if (from === 'parent') {
    const session =
      byId.value.get(id) ?? (await call<{ parent?: { sessionId: string; eventId: string } }>(ofSession(id)))
    return { from: session.parent ?? { base: true }, to }
  }
  const [sessionId = '', state = ''] = from.includes('@') ? from.split('@') : ['', from]
  return { from: { ...(sessionId !== '' && { sessionId }), ...stateOf(state) }, to }
}

interface FromBarProps {
  readonly id: string
  readonly from: string
  readonly files: readonly ChangedFile[]
}

/** Chooses the state to compare with. */
function FromBar({ id, from, files }: FromBarProps): VNode {
  const session = byId.value.get(id)
  const checkpoints = eventsOf(id).events.value.filter((event) => operationOf(event) === 'CreateCheckpoint')
  const named = new Set(['base', 'before', 'parent', ...checkpoints.map(({ eventId }) => eventId)])
  const additions = files.reduce((sum, file) => sum + file.additions, 0)
  const deletions = files.reduce((sum, file) => sum + file.deletions, 0)
  return (
    <div class="bar">
      <label>
        Compare with{' '}
        <select
          value={from}
          onChange={({ currentTarget }) => change({ from: currentTarget.value, file: undefined })}
        >
          <option value="base">the base</option>
          {session?.parent !== undefined && <option value="parent">the start of the fork</option>}
          <option value="before">the event before</option>
          {checkpoints.toReversed().map((event) => (
            <option key={event.eventId} value={event.eventId}>
              {labelOf(event)}
            </option>
          ))}
          {!named.has(from) && <option value={from}>{nameOf(from)}</option>}
        </select>
      </label>
      <OtherState id={id} />
      <span class="grow" />
      <span class="quiet">{count(files.length, 'file')}</span>
      <span class="added">+{additions.toLocaleString('en')}</span>
      <span class="removed">−{deletions.toLocaleString('en')}</span>
    </div>
  )
}

function nameOf(from: string): string {
  const [sessionId = '', state = ''] = from.includes('@') ? from.split('@') : ['', from]
  const shownState = state === '' ? 'newest' : `event …${state.slice(-8)}`
  return sessionId === '' ? shownState : `${shortId(sessionId)}, ${shownState}`
}

/** Compares with another session, or with any event of this one. */
function OtherState({ id }: { readonly id: string }): VNode {
  const problem = useSignal('')
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        const input = event.currentTarget.elements.namedItem('other')
        if (!(input instanceof HTMLInputElement)) return
        const given = input.value.trim()
        if (given === '') return
        const found = [...byId.value.keys()].filter(
          (one) => one === given || one.endsWith(given.replace(/^.*…/, '')),
        )
        const [first] = found
        if (given.startsWith(`${id}-`)) change({ from: given, file: undefined })
        else if (found.length === 1 && first !== undefined) change({ from: `${first}@`, file: undefined })
        else {
          problem.value = found.length === 0 ? 'no such session' : 'several sessions'
          return
        }
        problem.value = ''
        input.value = ''
      }}
    >
      <input
        name="other"
        type="text"
        list="other-sessions"
        size={22}
        aria-label="Id of a session or of an event to compare with"
        placeholder="id of a session or event"
      />
      <datalist id="other-sessions">
        {[...byId.value.values()]
          .filter((session) => session.id !== id)
          .slice(-200)
          .map((session) => (
            <option key={session.id} value={session.id}>
              {Object.entries(session.tags)
                .map((tag) => tag.join('='))
                .join(' ')}
            </option>
          ))}
      </datalist>
      <span class="removed" role="status">
        {problem.value}
      </span>
    </form>
  )
}

function FileLine({ file }: { readonly file: ChangedFile }): VNode {
  return (
    <>
      <span class={`letter ${file.change}`} aria-label={file.change}>
        {letters[file.change]}
      </span>
      <span class="grow clip path">
        <Name text={file.path} />
      </span>
      {file.additions > 0 && <span class="added">+{file.additions}</span>}
      {file.deletions > 0 && <span class="removed">−{file.deletions}</span>}
    </>
  )
}

const none: readonly Note[] = []

interface FileDiffProps {
  readonly id: string
  readonly file: ChangedFile
  readonly from: string
  readonly at: string
  readonly moment: number
}

function FileDiff({ id, file, from, at, moment }: FileDiffProps): VNode {
  const context = useSignal(3)
  const form = place.value.query.get('form') === 'split' ? 'split' : 'unified'
  const loaded = useLoaded(
    async (signal) => {
      const globs = [file.path, file.oldPath].filter((path) => path !== undefined).map(escapedGlob)
      for await (const page of pages<{ files: ChangedFile[]; nextPageToken: string }>(
        ofSession(id, ':diffFiles'),
        {
          method: 'POST',
          body: { ...(await statesOf(id, from, at)), globs, hunks: true, context: context.value },
          signal,
        },
      )) {
        const found = page.files.find(({ path }) => path === file.path)
        if (found !== undefined) return found
      }
      return file
    },
    [id, file, from, at, moment, context.value],
  )
  const notes = useLoaded(
    async (signal) =>
      (
        await call<{ annotations: Note[] }>(ofSession(id, '/annotations'), {
          query: { filePath: file.path },
          signal,
        })
      ).annotations,
    [id, file.path, moment],
  )
  return (
    <div class="file">
      <div class="bar">
        <h2 class="clip grow">
          {file.oldPath !== undefined && (
            <>
              <Name text={file.oldPath} /> →{' '}
            </>
          )}
          <Name text={file.path} />
        </h2>
        {file.oldMode !== undefined && file.mode !== undefined && file.oldMode !== file.mode && (
          <span class="quiet">
            mode {file.oldMode.toString(8)} → {file.mode.toString(8)}
          </span>
        )}
        <button type="button" class="plain" onClick={() => (context.value = context.value === 3 ? 100 : 3)}>
          {context.value === 3 ? 'More context' : 'Less context'}
        </button>
        <div class="switch" role="group" aria-label="Form of the diff">
          {(['unified', 'split'] as const).map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={one === form}
              onClick={() => change({ form: one }, true)}
            >
              {one}
            </button>
          ))}
        </div>
      </div>
      <Show loaded={loaded}>
        {(found) =>
          found.isBinary ? (
            <Empty title="Binary file">The bytes differ. The tab Files shows them in hex.</Empty>
          ) : found.isTruncated ? (
            <Empty title="Too large to compare">The lines of contents over the limit are not compared.</Empty>
          ) : (found.hunks ?? []).length === 0 ? (
            <Empty title="No changed lines">The file is empty, or only its mode or its name differs.</Empty>
          ) : (
            <Hunks hunks={found.hunks ?? []} form={form} notes={notes.value ?? none} />
          )
        }
      </Show>
    </div>
  )
}

/** A glob that matches one path only. */
function escapedGlob(path: string): string {
  return path.replaceAll(/[\\*?[\]{}!()]/g, String.raw`\$&`)
}
