import { useSignal } from '@preact/signals'
import { messageOf } from './api.js'
import { inBackground } from './background.js'

/** Something that a user starts with a button. */
export interface Action {
  /** Why the last run failed. */
  readonly failure: string | undefined
  /** Whether a run has not ended yet. Its buttons are then disabled. */
  readonly isBusy: boolean
  /** Runs one piece of work at a time, so that a second click changes nothing. */
  readonly run: (work: () => Promise<void>) => void
}

export function useAction(): Action {
  const failure = useSignal<string | undefined>(undefined)
  const isBusy = useSignal(false)
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work()
      failure.value = undefined
    } catch (error) {
      failure.value = messageOf(error)
    } finally {
      isBusy.value = false
    }
  }
  const run = (work: () => Promise<void>): void => {
    if (isBusy.peek()) return
    isBusy.value = true
    inBackground(attempt(work))
  }
  return { failure: failure.value, isBusy: isBusy.value, run }
}
