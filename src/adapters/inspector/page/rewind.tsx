import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useAction } from './action.js'
import { call, info, ofSession } from './api.js'
import { newestOf, refreshEvents } from './events.js'
import { count, Name } from './format.js'
import { change } from './route.js'
import { Failure } from './states.js'
import type { Change } from './wire.js'

interface Preview {
  readonly changes: readonly Change[]
  readonly isComplete: boolean
}

interface Step {
  readonly title: string
  readonly verb: string
  readonly body: object
}

interface Plan extends Step {
  readonly preview: Preview
  /** The newest event that the page knew before the preview. */
  readonly newest: string | undefined
  /** Why the plan is shown again. */
  readonly note: string
}

const letters: Readonly<Record<string, string>> = { added: 'A', modified: 'M', removed: 'D' }

/** Restores the state after an event, and undoes changes, each after a preview. Only with the option `write`. */
export function Rewind({ id, eventId }: { readonly id: string; readonly eventId: string }): VNode | null {
  const plan = useSignal<Plan | undefined>(undefined)
  const { failure, isBusy, run } = useAction()
  if (info.value?.write !== true) return null
  const prepare = async (step: Step, note = ''): Promise<void> => {
    await refreshEvents(id)
    const newest = newestOf(id)
    const body = { ...step.body, dryRun: true }
    const preview = await call<Preview>(ofSession(id, step.verb), { method: 'POST', body })
    plan.value = { ...step, preview, newest, note }
  }
  const carryOut = async ({ title, verb, body, newest }: Plan): Promise<void> => {
    await refreshEvents(id)
    if (newestOf(id) !== newest) {
      await prepare({ title, verb, body }, 'The session has changed since. ')
      return
    }
    await call(ofSession(id, verb), { method: 'POST', body })
    plan.value = undefined
    await refreshEvents(id)
    change({ at: undefined }, true)
  }
  return (
    <section class="rewind" aria-label="Change the session">
      <div class="buttons">
        <button
          type="button"
          disabled={isBusy}
          onClick={() =>
            run(() =>
              prepare({ title: 'Restore this state', verb: ':restoreState', body: { from: { eventId } } }),
            )
          }
        >
          Restore this state …
        </button>
        <button
          type="button"
          disabled={isBusy}
          onClick={() => run(() => prepare({ title: 'Undo the newest change', verb: ':undo', body: {} }))}
        >
          Undo …
        </button>
        <button
          type="button"
          disabled={isBusy}
          onClick={() => run(() => prepare({ title: 'Redo', verb: ':redo', body: {} }))}
        >
          Redo …
        </button>
      </div>
      {failure !== undefined && <Failure error={failure} />}
      {plan.value !== undefined && (
        <div class="preview">
          <p class="strong">{plan.value.title}</p>
          <p class="quiet" role="status">
            {plan.value.note}
            {plan.value.preview.changes.length === 0
              ? 'No file would change.'
              : `${count(plan.value.preview.changes.length, 'path')} would change${plan.value.preview.isComplete ? '' : ', and more'}:`}
          </p>
          <ul>
            {plan.value.preview.changes.slice(0, 100).map(({ path, change: kind }) => (
              <li key={path}>
                <span class={`letter ${kind}`}>{letters[kind]}</span> <Name text={path} />
              </li>
            ))}
          </ul>
          <div class="buttons">
            <button
              type="button"
              disabled={isBusy || plan.value.preview.changes.length === 0}
              onClick={() => {
                const chosen = plan.value
                if (chosen !== undefined) run(() => carryOut(chosen))
              }}
            >
              {plan.value.title}
            </button>
            <button
              type="button"
              class="plain"
              onClick={() => {
                plan.value = undefined
              }}
            >
              Cancel
            </button>
          </div>
        </div>
      )}
    </section>
  )
}
