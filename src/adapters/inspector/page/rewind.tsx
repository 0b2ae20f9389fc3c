import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { call, info, messageOf, ofSession } from './api.js'
import { inBackground } from './background.js'
import { refreshEvents } from './events.js'
import { count, Name } from './format.js'
import { change } from './route.js'
import { Failure } from './states.js'
import type { Change } from './wire.js'

interface Preview {
  readonly changes: readonly Change[]
  readonly isComplete: boolean
}

interface Plan {
  readonly title: string
  readonly path: string
  readonly body: object
  readonly preview: Preview
}

const letters: Readonly<Record<string, string>> = { added: 'A', modified: 'M', removed: 'D' }

/** Restores the state after an event, and undoes changes, each after a preview. Only with the option `write`. */
export function Rewind({ id, eventId }: { readonly id: string; readonly eventId: string }): VNode | null {
  const plan = useSignal<Plan | undefined>(undefined)
  const failure = useSignal<string | undefined>(undefined)
  if (info.value?.write !== true) return null
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work()
      failure.value = undefined
    } catch (error) {
      failure.value = messageOf(error)
    }
  }
  const prepare = (title: string, verb: string, body: object): void => {
    inBackground(
      attempt(async () => {
        const path = ofSession(id, verb)
        const preview = await call<Preview>(path, { method: 'POST', body: { ...body, dryRun: true } })
        plan.value = { title, path, body, preview }
      }),
    )
  }
  const carryOut = ({ path, body }: Plan): void => {
    inBackground(
      attempt(async () => {
        await call(path, { method: 'POST', body })
        plan.value = undefined
        await refreshEvents(id)
        change({ at: undefined }, true)
      }),
    )
  }
  return (
    <section class="rewind" aria-label="Change the session">
      <div class="buttons">
        <button
          type="button"
          onClick={() => prepare('Restore this state', ':restoreState', { from: { eventId } })}
        >
          Restore this state …
        </button>
        <button type="button" onClick={() => prepare('Undo the newest change', ':undo', {})}>
          Undo …
        </button>
        <button type="button" onClick={() => prepare('Redo', ':redo', {})}>
          Redo …
        </button>
      </div>
      {failure.value !== undefined && <Failure error={failure.value} />}
      {plan.value !== undefined && (
        <div class="preview">
          <p class="strong">{plan.value.title}</p>
          <p class="quiet" role="status">
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
              disabled={plan.value.preview.changes.length === 0}
              onClick={() => {
                if (plan.value !== undefined) carryOut(plan.value)
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
