import { signal } from '@preact/signals'

/** Grows with each change of the files of the open session, so that views read again. */
export const version = signal(0)
