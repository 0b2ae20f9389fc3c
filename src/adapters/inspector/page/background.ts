import { signal } from '@preact/signals'
import { messageOf } from './api.js'

/** The last failure of work that no view waits for. */
export const backgroundFailure = signal<string | undefined>(undefined)

/** Starts work that no view waits for. */
export function inBackground(work: Promise<unknown> | undefined): void {
  work?.catch((error: unknown) => {
    backgroundFailure.value = messageOf(error)
  })
}
