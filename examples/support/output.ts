import { SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import colors from 'picocolors'

const coloured = colors.isColorSupported && (process.stdout.isTTY || Boolean(process.env['FORCE_COLOR']))

export const { bold, dim, green, red } = colors.createColors(coloured)

export function heading(text: string): void {
  console.log(`\n${bold(`== ${text}`)}`)
}

/** Runs one step and prints its duration. */
export async function step<T>(what: string, work: () => Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work()
  console.log(`   ${what.padEnd(58)} ${dim(duration(performance.now() - start).padStart(10))}`)
  return result
}

export function duration(ms: number): string {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`
  return ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`
}

export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`
}

export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  return bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`
}

/** The first column is text. The others are numbers, aligned to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const out = new Table({
    head: [...head],
    colAligns: head.map((_, column) => (column === 0 ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  })
  for (const row of rows) out.push([...row])
  console.log(out.toString())
}

export interface Counter {
  update(text: string): void
  /** Clears the line, so that later output replaces it. */
  stop(): void
}

/** A status line that updates in place, on terminals only. The total is unknown, so there is no progress bar. */
export function counter(text: string): Counter {
  if (!process.stdout.isTTY) return { update: () => {}, stop: () => {} }
  const line = new SingleBar({
    format: '   {text}',
    clearOnComplete: true,
    hideCursor: true,
    stream: process.stdout,
  })
  line.start(0, 0, { text })
  return { update: (text) => line.update({ text }), stop: () => line.stop() }
}

export function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `   ${line}`)
    .join('\n')
}
