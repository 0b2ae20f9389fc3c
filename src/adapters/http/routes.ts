import { operations, type Operation, type OperationName } from '../../engine/contract.js'

export interface Route {
  readonly name: OperationName
  readonly operation: Operation
  /** Names of the parameters of the path, in its order. */
  readonly parameters: readonly string[]
}

export interface Match {
  readonly route: Route
  /** Of the parameters, as they were sent. */
  readonly values: readonly string[]
}

/** What may stand between two slashes of a path, and what may come behind it. */
interface Step {
  readonly literal: Map<string, Step>
  parameter: Step | undefined
  /** A parameter with `:verb` behind it. */
  readonly verbs: Map<string, Step>
  readonly methods: Map<string, Route>
}

/**
 * Finds operations by method and path. Paths are compared as they were sent, part by part: `%2F` is a character
 * of a parameter, and `..` or `%2e%2e` a parameter like any other. What is literal goes before a parameter, if it
 * has the method; a parameter is never empty.
 */
export class Routes {
  readonly #root = newStep()

  constructor() {
    for (const [name, operation] of Object.entries<Operation>(operations)) {
      for (const path of [operation.path, ...(operation.aliases ?? [])])
        this.#add(path, name as OperationName, operation)
    }
  }

  find(method: string, path: string): Match | undefined {
    const parts = path.split('/')
    return parts[0] === ''
      ? search(this.#root, parts, 1, [], ({ methods }) => methods.get(method))
      : undefined
  }

  /** The methods of a path; none where there is no such path. */
  methods(path: string): string[] {
    const found = new Set<string>()
    search(this.#root, path.split('/'), 1, [], ({ methods }) => {
      for (const method of methods.keys()) found.add(method)
      return undefined
    })
    return path.startsWith('/') ? [...found] : []
  }

  #add(path: string, name: OperationName, operation: Operation): void {
    const parameters: string[] = []
    let step = this.#root
    for (const part of path.split('/').slice(1)) {
      const [, parameter, verb] = /^\{(\w+)\}(:\w+)?$/.exec(part) ?? []
      if (parameter === undefined) step = child(step.literal, part)
      else {
        parameters.push(parameter)
        step = verb === undefined ? (step.parameter ??= newStep()) : child(step.verbs, verb)
      }
    }
    step.methods.set(operation.method, { name, operation, parameters })
  }
}

/** Goes on until `choose` takes the route of a step that the whole path leads to. */
function search(
  step: Step,
  parts: readonly string[],
  index: number,
  values: readonly string[],
  choose: (step: Step) => Route | undefined,
): Match | undefined {
  const part = parts[index]
  if (part === undefined) {
    const route = choose(step)
    return route && { route, values }
  }
  const literal = step.literal.get(part)
  const found = literal && search(literal, parts, index + 1, values, choose)
  if (found !== undefined || part === '') return found
  const colon = step.verbs.size > 0 ? part.lastIndexOf(':') : -1
  if (colon < 0) {
    const { parameter } = step
    return parameter && search(parameter, parts, index + 1, [...values, part], choose)
  }
  const verb = colon > 0 ? step.verbs.get(part.slice(colon)) : undefined
  return verb && search(verb, parts, index + 1, [...values, part.slice(0, colon)], choose)
}

function child(steps: Map<string, Step>, name: string): Step {
  const known = steps.get(name)
  if (known !== undefined) return known
  const step = newStep()
  steps.set(name, step)
  return step
}

function newStep(): Step {
  return { literal: new Map(), parameter: undefined, verbs: new Map(), methods: new Map() }
}
