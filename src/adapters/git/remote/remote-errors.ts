import { EngineError } from '../../../engine/ports.js'
import { gitLimits } from '../limits.js'

/**
 * Prepares a remote's text for display: removes control characters except line feeds, and those that change the direction of
 * text, and shortens long text.
 */
export function cleanRemoteText(text: string): string {
  return (
    text
      .replace(/\r\n?/g, '\n')
      // eslint-disable-next-line no-control-regex
      .replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, '')
      // eslint-disable-next-line no-control-regex
      .replace(/[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')
      .trim()
      .slice(0, gitLimits.remoteMessageChars)
      .toWellFormed()
  )
}

export function remoteError(text: string): EngineError {
  const remoteMessage = cleanRemoteText(text)
  if (/not our ref|unadvertised object|no such (ref|remote ref)/i.test(remoteMessage)) {
    return new EngineError('GIT_REF_NOT_FOUND', `the remote does not offer this object: ${remoteMessage}`, {
      remoteMessage,
    })
  }
  return new EngineError('GIT_REMOTE_ERROR', `the remote returned an error: ${remoteMessage}`, {
    remoteMessage,
  })
}

export function pushRejected(reason: string, remoteText: string): EngineError {
  const remoteMessage = cleanRemoteText(remoteText)
  const shown = cleanRemoteText(reason)
  return new EngineError('GIT_PUSH_REJECTED', `the remote refused the push: ${remoteMessage || shown}`, {
    reason: shown,
    remoteMessage: remoteMessage || shown,
  })
}

export function branchMoved(ref: string, expectedOid: string | null, actualOid: string | null): EngineError {
  const branch = ref.replace(/^refs\/heads\//, '')
  return new EngineError(
    'BRANCH_MOVED',
    `branch ${branch} has a newer commit that this commit does not build on; import the source again, then commit from a session on the new revision`,
    {
      branch,
      expectedOid: expectedOid ?? '',
      actualOid: actualOid ?? '',
    },
  )
}

/** The error for a status that is not 200. */
export function statusError(status: number, credentialsSent: boolean): EngineError {
  const details = { status: String(status) }
  switch (status) {
    case 401:
      return credentialsSent
        ? new EngineError('GIT_AUTH_FAILED', 'the remote refused the credentials of git.credentials', details)
        : new EngineError(
            'GIT_AUTH_REQUIRED',
            'the remote requires credentials; pass the option git.credentials',
            details,
          )
    case 403:
      return new EngineError('GIT_AUTH_FAILED', 'the remote denied access (status 403)', details)
    case 404:
    case 410:
      return new EngineError(
        'GIT_REPO_NOT_FOUND',
        'there is no repository at this address; check the URL',
        details,
      )
    default:
      return new EngineError('GIT_REMOTE_ERROR', `the remote returned the status ${status}`, details)
  }
}
