import type {
  GlobRequest,
  GlobResult,
  GrepRequest,
  GrepResult,
  PublicOf,
  SearchOptions,
  SessionText,
} from '../../engine/index.js'
import { Shape } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { callsOf, remoteService } from './remote-service.js'

const optionsShape = new Shape<SearchOptions>({ signal: true })

/** The files of a session as text. Like `session.text` of a local engine. */
export class RemoteText
  extends remoteService('session.text', 'glob', 'grep')
  implements PublicOf<SessionText>
{
  /**
   * Finds paths by globs. The signal ends the request.
   *
   * @throws {EngineError} PATH_NOT_FOUND when the directory does not exist
   * @throws {EngineError} NOT_A_DIRECTORY when `path` is not a directory
   * @throws {EngineError} INVALID_ARGUMENT when a glob is malformed
   *
   * @example
   * const { entries } = await session.text.glob({ patterns: ['*.ts'] }, { signal: AbortSignal.timeout(5000) })
   */
  async glob(request: GlobRequest, options: SearchOptions = {}): Promise<GlobResult> {
    const { signal } = optionsShape.read(options, 'options')
    return callsOf(this).call('globPaths', checked(request), { signal })
  }

  /**
   * Searches the text of files. The signal ends the request.
   *
   * @throws {EngineError} INVALID_ARGUMENT when the pattern is no regular expression of RE2
   * @throws {EngineError} PATH_NOT_FOUND when `path` does not exist
   *
   * @example
   * const { lines } = await session.text.grep({ pattern: 'TODO' }, { signal: AbortSignal.timeout(5000) })
   */
  async grep(request: GrepRequest, options: SearchOptions = {}): Promise<GrepResult> {
    const { signal } = optionsShape.read(options, 'options')
    return callsOf(this).call('grepFiles', checked(request), { signal })
  }
}
