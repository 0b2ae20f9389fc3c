import { given } from './input.js'
import { invalid } from './errors.js'

const rfc3339 = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/

/** Milliseconds since the epoch of an RFC 3339 time; digits beyond milliseconds are cut off. */
export function parseTime(field: string, text: unknown): number {
  const parts = typeof text === 'string' ? rfc3339.exec(text) : null
  if (parts !== null) {
    const [, date = '', time, fraction = '', zone = ''] = parts
    const wall = Date.parse(`${date}T${time}${fraction.slice(0, 4)}Z`)
    const ms = Date.parse(`${date}T${time}${fraction.slice(0, 4)}${zone.toUpperCase()}`)
    // Some parsers turn a day like 30 February into one in March, and others reject it.
    if (Number.isFinite(ms) && new Date(wall).toISOString().startsWith(date)) return ms
  }
  const shown = given(text)
  const advice = shown === 'an instance of Date' ? ': pass its toISOString()' : ''
  throw invalid(field, `must be a time like 2026-01-31T08:00:00.000Z; it is ${shown}${advice}`)
}
