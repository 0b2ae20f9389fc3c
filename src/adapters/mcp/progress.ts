import type { ServerContext } from '@modelcontextprotocol/server'
import { limits } from './limits.js'

/**
 * Tells the client that a call goes on, if it asked for that: at the beginning, and then in equal distances. The
 * numbers count these notes, because no total is known.
 */
export async function withProgress<T>({ mcpReq }: ServerContext, work: () => Promise<T>): Promise<T> {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return work()
  let progress = 0
  const note = (): void => {
    progress += 1
    // A client that has gone is no failure of the call.
    mcpReq
      .notify({ method: 'notifications/progress', params: { progressToken, progress } })
      .catch(() => undefined)
  }
  note()
  const timer = setInterval(note, limits.progressMs)
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}
