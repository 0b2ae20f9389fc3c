import type { ServerContext } from '@modelcontextprotocol/server'
import { limits } from './limits.js'

/**
 * Sends progress notifications for a call whose client asked for them: one at the beginning, then one per interval.
 * They are numbered 0, 1, 2 and so on, because the total work is unknown.
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
