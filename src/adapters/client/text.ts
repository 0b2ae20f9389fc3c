import type { GrepOptions, GrepRequest, GrepResult, PublicOf, SessionText } from '../../engine/index.js'
import { Shape } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { callsOf, remoteService } from './remote-service.js'

const optionsShape = new Shape<GrepOptions>({ signal: true })

/** The files of a session as text. Like `session.text` of a local engine. */
export class RemoteText extends remoteService('session.text', 'grep') implements PublicOf<SessionText> {
  /**
   * Searches the text of files. The signal ends the request.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the pattern is no regular expression of RE2
   * @throws {EngineError} PATH_NOT_FOUND when `path` does not exist
   *
   * @example
   * const { lines } = await session.text.grep({ pattern: 'TODO' }, { signal: AbortSignal.timeout(5000) })
   */
  async grep(request: GrepRequest, options: GrepOptions = {}): Promise<GrepResult> {
    const { signal } = optionsShape.read(options, 'options')
    return callsOf(this).call('grepFiles', checked(request), { signal })
  }
}
