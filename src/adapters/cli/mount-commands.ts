import { cliLimits } from './limits.js'

interface Where {
  readonly url: string
  readonly directory: string | undefined
}

/** The commands that mount a WebDAV server on a platform. They ask for the password, so it is in no process list. */
export function mountCommands(
  platform: NodeJS.Platform,
  { url, directory = './mount' }: Where,
): readonly string[] {
  if (platform === 'darwin') return [`mount_webdav -i ${url} ${quoted(directory)}`]
  if (platform === 'win32') return [`net use * ${url} /user:forkspace *`]
  return [
    // Without this buffer, davfs2 cannot list directories on newer kernels.
    `printf 'buf_size ${cliLimits.davfsBufferKib}\\ndelay_upload 0\\n' > davfs2.conf && sudo mount -t davfs -o conf="$PWD/davfs2.conf",username=forkspace ${url} ${quoted(directory)}`,
    `gio mount ${url.replace(/^http:\/\//, 'dav://forkspace@')}`,
  ]
}

function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}
