import { EngineError, invalid } from '../../../engine/ports.js'

/**
 * Checks the URL of a remote and returns its normal form, without a trailing slash. Only http and https URLs
 * without user name, password, query and fragment are valid. Throws GIT_UNSUPPORTED_TRANSPORT for ssh, git,
 * file and scp-like addresses, and INVALID_ARGUMENT (field `remoteUrl`) for other invalid URLs. No message
 * contains the URL, because it may contain a secret.
 */
export function checkRemoteUrl(remoteUrl: string): string {
  const scheme = /^\s*([a-z][a-z0-9+.-]*):\/\//i.exec(remoteUrl)?.[1]?.toLowerCase()
  if (scheme === undefined) {
    if (/^[^/]+:/.test(remoteUrl)) throw unsupported('scp-like addresses')
    throw invalid(
      'remoteUrl',
      'must be an http or https URL; for a repository of this host, use the source gitRepository: { path }',
    )
  }
  if (scheme !== 'http' && scheme !== 'https') throw unsupported(`${scheme}://`)
  if (!URL.canParse(remoteUrl)) throw invalid('remoteUrl', 'is not a valid URL')
  const url = new URL(remoteUrl)
  if (url.username !== '' || url.password !== '') {
    throw invalid('remoteUrl', 'must not contain credentials; pass them through the `credentials` option')
  }
  if (url.search !== '' || url.hash !== '') throw invalid('remoteUrl', 'must have no query and no fragment')
  return url.href.replace(/[?#/]+$/, '')
}

function unsupported(what: string): EngineError {
  return new EngineError(
    'GIT_UNSUPPORTED_TRANSPORT',
    `${what} cannot be used as a remote; use an http or https URL, or for a repository of this host the source gitRepository: { path }`,
  )
}
