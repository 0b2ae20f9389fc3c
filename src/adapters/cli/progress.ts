import { cliLimits } from './limits.js'
/** The progress of long work, shown on standard error if that is a terminal. */
export interface Progress {
  update(values: { readonly bytes?: number; readonly files?: number }): void
  stop(): void
}

const none: Progress = { update: () => undefined, stop: () => undefined }

export interface ProgressOptions {
  readonly totalBytes?: number
  /** Whether to show the number of files. */
  readonly files?: boolean
}

/** Shows a bar if the size is known, otherwise only numbers. A long title is shortened. */
export async function startProgress(
  stream: NodeJS.WriteStream,
  title: string,
  { totalBytes, files = false }: ProgressOptions = {},
): Promise<Progress> {
  if (!stream.isTTY) return none
  const { default: cliProgress } = await import('cli-progress')
  const bar = new cliProgress.SingleBar({
    format: `{title}${totalBytes === undefined ? '' : '  [{bar}] {percentage}%'}  {size}${files ? '  {files} files' : ''}`,
    stream,
    clearOnComplete: true,
    fps: 10,
    // A signal ends the process immediately, so the terminal must not need a cleanup.
    hideCursor: false,
    linewrap: true,
    gracefulExit: false,
  })
  const name = title.length > cliLimits.titleLength ? `${title.slice(0, cliLimits.titleLength - 1)}…` : title
  bar.start(totalBytes ?? 1, 0, { title: name, size: formatBytes(0), files: '0' })
  let last = { bytes: 0, files: 0 }
  return {
    update(values) {
      last = { ...last, ...values }
      const shown = { title: name, size: formatBytes(last.bytes), files: last.files.toLocaleString('en-US') }
      if (totalBytes === undefined) bar.update(shown)
      else bar.update(Math.min(last.bytes, totalBytes), shown)
    },
    stop: () => bar.stop(),
  }
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit] ?? ''}`
}
