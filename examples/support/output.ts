import { SingleBar } from 'cli-progress'
import Table from 'cli-table3'
import colors from 'picocolors'

export const { bold, dim, green, red, yellow } = colors

export function heading(text: string): void {
  console.log(`\n${bold(`== ${text}`)}`)
}

/** One step of the story with the time that it took. */
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

export function table(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const plain = { head: [], border: [] }
  const out = new Table({ head: [...head], style: colors.isColorSupported ? {} : plain })
  for (const row of rows) out.push([...row])
  console.log(out.toString())
}

export interface Progress {
  update(done: number): void
  stop(): void
}

/** A bar on a terminal, a line at the end elsewhere. */
export function progress(unit: string): Progress {
  if (!process.stdout.isTTY) {
    let last = 0
    return {
      update: (done) => {
        last = done
      },
      stop: () => console.log(`   ${last} ${unit}`),
    }
  }
  const bar = new SingleBar({ format: `   {value} ${unit} {bar}`, clearOnComplete: true, hideCursor: true })
  bar.start(1, 0)
  return {
    update: (done) => {
      bar.setTotal(Math.max(done, 1))
      bar.update(done)
    },
    stop: () => bar.stop(),
  }
}

export function indent(text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => `   ${line}`)
    .join('\n')
}
