import { Failure } from './failure.js'

/** The failure to show if a server cannot listen on a port of loopback. */
export function portFailure(error: unknown, port: number): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'EADDRINUSE')
    return new Failure(`port ${port} of 127.0.0.1 is in use: pass another --port, or none`, { cause: error })
  if (code === 'EACCES')
    return new Failure(`this user is not allowed to use port ${port}: pass another --port, or none`, {
      cause: error,
    })
  return error
}
