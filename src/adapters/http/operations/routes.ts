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
  /** The name of the content route, if this is one. */
  readonly content?: ContentRouteName
}

export interface Match {
  readonly route: Route
  /** The decoded parameters of the path. */
  readonly parameters: Readonly<Record<string, string | undefined>>
}

/**
 * Finds operations by method and path. The percent-encoding is decoded once: `%2F` is a slash within a
 * parameter, and `..` is an ordinary value of a parameter. A literal segment takes precedence over a
 * parameter. A parameter is never empty.
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

  /** @throws HttpError `INVALID_ARGUMENT` for a malformed percent-encoding. */
  find(method: string, path: string): Match | undefined {
    // The router would parse text without a leading slash as a URL.
    if (!path.startsWith('/')) return undefined
    const found = this.#router.find(method as Operation['method'], path)
    if (found === null) return undefined
    // Only the router's own handler for malformed paths has no store.
    if (found.store === null) throw invalidField('url', 'the percent-encoding is malformed')
    return { route: found.store as Route, parameters: found.params }
  }

  /** Returns the methods of a path, or an empty list for an unknown path. */
  methods(path: string): string[] {
    return [...this.#methods].filter((method) => this.find(method, path) !== undefined)
  }

  #add(method: Operation['method'], path: string, route: Route): void {
    this.#methods.add(method)
    this.#router.on(method, patternOf(path), () => undefined, route)
  }
}

/**
 * Converts a path to a pattern of the router. For example, `/sessions/{sessionId}:rename` becomes
 * `/sessions/:sessionId(^[^:]+)::rename`. The router requires that literal colons are doubled. The
 * expressions exclude empty parameters, which it would accept. An id contains no colon, because a verb may
 * follow it.
 */
function patternOf(path: string): string {
  return path
    .replaceAll(':', '::')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => `:${name}(^${name.endsWith('Id') ? '[^:]' : '[^]'}+)`)
}
