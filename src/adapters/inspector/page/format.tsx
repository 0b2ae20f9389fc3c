import type { VNode } from 'preact'

/** Characters that would change how the text around them looks: controls, marks of direction, invisible ones. */
const unsafe = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Text in which such characters are visible as escapes. */
export function shown(text: string): string {
  return text.replaceAll(
    unsafe,
    (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )
}

/** A name from a store. Its direction does not change the text around it. */
export function Name({ text }: { readonly text: string }): VNode {
  return <bdi>{shown(text)}</bdi>
}

/** The beginning and the end of an id. Ids that were made shortly after each other begin in the same way. */
export function shortId(id: string): string {
  return id.length <= 16 ? id : `${id.slice(0, 6)}…${id.slice(-6)}`
}

/** An id, short, with the whole id for a pointer and a screen reader. */
export function Id({ id }: { readonly id: string }): VNode {
  return (
    <code class="id" title={shown(id)}>
      {shown(shortId(id))}
    </code>
  )
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** A size with three digits. */
export function size(bytes: number): string {
  let value = bytes
  let unit = 0
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? ''}`
}

/** A number with separators. */
export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString('en')} ${value === 1 ? one : many}`
}

/** A time in the zone of the reader. */
export function Time({ at }: { readonly at: string }): VNode {
  const date = new Date(at)
  const part = (value: number): string => String(value).padStart(2, '0')
  const day = `${date.getFullYear()}-${part(date.getMonth() + 1)}-${part(date.getDate())}`
  const time = `${part(date.getHours())}:${part(date.getMinutes())}:${part(date.getSeconds())}`
  const isToday = new Date().toDateString() === date.toDateString()
  return (
    <time dateTime={at} title={at}>
      {isToday ? time : `${day} ${time}`}
    </time>
  )
}
