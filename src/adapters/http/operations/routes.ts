import findMyWay from 'find-my-way'
import {
  contentRoutes,
  operations,
  type ContentRoute,
  type ContentRouteName,
  type Operation,
  type OperationName,
} from '../../../engine/contract.js'
import { invalidField } from '../http-error.js'

export interface Route {
  readonly name: OperationName
  /** Whether its response is a stream that stays open. */
  readonly isStream: boolean
  /** The content route of the operation that this is. */
  readonly content?: ContentRouteName
}

export interface Match {
  readonly route: Route
  /** The parameters of the path, decoded. */
  readonly parameters: Readonly<Record<string, string | undefined>>
}

/**
 * Finds operations by method and path. The percent-encoding is taken off once: `%2F` is a character of a parameter, and
 * `..` a parameter like any other. A literal part goes before a parameter; a parameter is never empty.
 */
export class Routes {
  readonly #router = findMyWay({ maxParamLength: Number.MAX_SAFE_INTEGER, onBadUrl: () => undefined })
  readonly #methods = new Set<Operation['method']>()

  constructor() {
    for (const [name, { path, aliases = [], method, stream = false }] of Object.entries<Operation>(
      operations,
    ))
      for (const each of [path, ...aliases])
        this.#add(method, each, { name: name as OperationName, isStream: stream })
    for (const [content, { path, method, operation }] of Object.entries<ContentRoute>(contentRoutes))
      this.#add(method, path, { name: operation, isStream: false, content: content as ContentRouteName })
  }

  /** INVALID_ARGUMENT for a malformed percent-encoding. */
  find(method: string, path: string): Match | undefined {
    // The router takes a text without a slash for a URL.
    if (!path.startsWith('/')) return undefined
    const found = this.#router.find(method as Operation['method'], path)
    if (found === null) return undefined
    // Only the router's own handler of malformed paths has no route.
    if (found.store === null) throw invalidField('url', 'the percent-encoding is malformed')
    return { route: found.store as Route, parameters: found.params }
  }

  /** The methods of a path; none where there is no such path. */
  methods(path: string): string[] {
    return [...this.#methods].filter((method) => this.find(method, path) !== undefined)
  }

  #add(method: Operation['method'], path: string, route: Route): void {
    this.#methods.add(method)
    this.#router.on(method, patternOf(path), () => undefined, route)
  }
}

/**
 * Of `/sessions/{sessionId}:rename`, `/sessions/:sessionId(^[^:]+)::rename`. The router wants a literal colon twice, and
 * would take an empty parameter. An id has no colon, because a verb may follow it.
 */
function patternOf(path: string): string {
  return path
    .replaceAll(':', '::')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => `:${name}(^${name.endsWith('Id') ? '[^:]' : '[^]'}+)`)
}
