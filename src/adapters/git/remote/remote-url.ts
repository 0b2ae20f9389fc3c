import { EngineError, invalid } from '../../../engine/ports.js'

/**
 * Checks the URL of a remote and gives its normal form: http or https, no user name or password, no query,
 * no fragment, no slash at the end. Throws GIT_UNSUPPORTED_TRANSPORT for ssh, git, file and scp-like
 * addresses, INVALID_ARGUMENT (field `remoteUrl`) for the rest. No message repeats the URL, which may hold
 * a secret.
 */
export function checkRemoteUrl(remoteUrl: string): string {
  const scheme = /^\s*([a-z][a-z0-9+.-]*):\/\//i.exec(remoteUrl)?.[1]?.toLowerCase()
  if (scheme === undefined) {
    if (/^[^/]+:/.test(remoteUrl)) throw unsupported('scp-like addresses')
    throw invalid('remoteUrl', 'must be an http or https URL')
  }
  if (scheme !== 'http' && scheme !== 'https') throw unsupported(`${scheme}://`)
  if (!URL.canParse(remoteUrl)) throw invalid('remoteUrl', 'is not a valid URL')
  const url = new URL(remoteUrl)
  if (url.username !== '' || url.password !== '') {
    throw invalid('remoteUrl', 'must not hold credentials; give them through the `credentials` option')
  }
  if (url.search !== '' || url.hash !== '') throw invalid('remoteUrl', 'must have no query and no fragment')
  return url.href.replace(/[?#/]+$/, '')
}

function unsupported(what: string): EngineError {
  return new EngineError(
    'GIT_UNSUPPORTED_TRANSPORT',
    `${what} cannot be used as a remote; use an http or https URL`,
  )
}
