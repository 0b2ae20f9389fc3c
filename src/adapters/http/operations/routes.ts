import { PatternRouter } from 'hono/router/pattern-router'
import {
  contentRoutes,
  operations,
  type ContentRoute,
  type ContentRouteName,
  type Operation,
  type OperationName,
} from '../../../engine/contract.js'

export interface Route {
  readonly name: OperationName
  /** Whether its response is a stream that stays open. */
  readonly isStream: boolean
  /** The content route of the operation that this is. */
  readonly content?: ContentRouteName
}

export interface Match {
  readonly route: Route
  /** The parameters of the path, as they were sent. */
  readonly parameters: Readonly<Record<string, string>>
}

/**
 * Finds operations by method and path. Paths are compared as they were sent, part by part: `%2F` is a character
 * of a parameter, and `..` or `%2e%2e` a parameter like any other. What is literal goes before a parameter, if it
 * has the method; a parameter is never empty.
 *
 * It is Hono's router that compares, of its kinds the one that takes a parameter with `:verb` behind it beside one
 * without, and works on paths instead of URLs. It tries one pattern after the other, so paths of a number of parts,
 * with a verb, have a router of their own.
 */
export class Routes {
  readonly #routers = new Map<string, PatternRouter<Route>>()
  readonly #methods = new Set<string>()

  constructor() {
    const paths: [path: string, method: string, Route][] = []
    for (const [key, { path, aliases = [], method, stream = false }] of Object.entries<Operation>(operations))
      for (const each of [path, ...aliases])
        paths.push([each, method, { name: key as OperationName, isStream: stream }])
    for (const [key, { path, method, operation }] of Object.entries<ContentRoute>(contentRoutes))
      paths.push([path, method, { name: operation, isStream: false, content: key as ContentRouteName }])
    const withVerbs = new Set(paths.flatMap(([path]) => /^(.*\})(?=:)/.exec(path)?.[1] ?? []))
    // The first of several that match is taken, and what is literal sorts before a brace.
    for (const [path, method, route] of paths.toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      this.#methods.add(method)
      this.#routerOf(path).add(method, patternOf(path, withVerbs), route)
    }
  }

  find(method: string, path: string): Match | undefined {
    // The router would take a slash too many.
    if (path.endsWith('/')) return undefined
    const depth = depthOf(path)
    const verb = verbOf(path)
    const found =
      (verb === '' ? undefined : this.#routers.get(`${depth}${verb}`)?.match(method, path)[0][0]) ??
      this.#routers.get(`${depth}`)?.match(method, path)[0][0]
    return found && { route: found[0], parameters: found[1] as Record<string, string> }
  }

  /** The methods of a path; none where there is no such path. */
  methods(path: string): string[] {
    return [...this.#methods].filter((method) => this.find(method, path) !== undefined)
  }

  #routerOf(path: string): PatternRouter<Route> {
    const key = `${depthOf(path)}${verbOf(path)}`
    let router = this.#routers.get(key)
    if (router === undefined) this.#routers.set(key, (router = new PatternRouter()))
    return router
  }
}

function depthOf(path: string): number {
  let depth = 0
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) depth++
  return depth
}

/** With its colon; of a path without one, empty. */
function verbOf(path: string): string {
  const colon = path.lastIndexOf(':')
  return colon > path.lastIndexOf('/') ? path.slice(colon) : ''
}

/** Of `/a/{id}:verb`, `/a/:id{[^/]+}:verb`. Where verbs may follow, a parameter without one has no colon. */
function patternOf(path: string, withVerbs: ReadonlySet<string>): string {
  return path.replace(/\{(\w+)\}(?=(:?))/g, (whole: string, name: string, colon: string, at: number) => {
    const mayHaveVerb = withVerbs.has(path.slice(0, at + whole.length))
    return `:${name}{${mayHaveVerb && colon === '' ? '[^/:]+' : '[^/]+'}}`
  })
}
