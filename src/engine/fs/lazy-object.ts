import { present } from '../base/present.js'

/** Functions that create each property from the state that all of them share. */
export type Makers<S> = Readonly<Record<string, (shared: S) => unknown>>

/**
 * Creates an object whose properties are created on first use. For callers, they are own and enumerable from
 * the start, and can be replaced. `session.fs` has about 130 functions, and most sessions use few.
 */
export function lazyObject<S>(makers: Makers<S>, shared: S): object {
  return new Proxy({}, new LazyProperties(makers, shared))
}

type Target = Record<string | symbol, unknown>

class LazyProperties<S> implements ProxyHandler<Target> {
  readonly #makers: Makers<S>
  readonly #shared: S

  constructor(makers: Makers<S>, shared: S) {
    this.#makers = makers
    this.#shared = shared
  }

  get(target: Target, name: string | symbol): unknown {
    const known = target[name]
    return known === undefined && this.#makes(name) ? (target[name] = this.#make(name)) : known
  }

  has(target: Target, name: string | symbol): boolean {
    return name in target || this.#makes(name)
  }

  ownKeys(target: Target): (string | symbol)[] {
    return [...new Set([...Object.keys(this.#makers), ...Reflect.ownKeys(target)])]
  }

  getOwnPropertyDescriptor(target: Target, name: string | symbol): PropertyDescriptor | undefined {
    if (!Object.hasOwn(target, name) && this.#makes(name)) target[name] = this.#make(name)
    return Reflect.getOwnPropertyDescriptor(target, name)
  }

  #makes(name: string | symbol): name is string {
    return typeof name === 'string' && Object.hasOwn(this.#makers, name)
  }

  #make(name: string): unknown {
    const made = present(this.#makers[name], name)(this.#shared)
    // Traces of errors show the name of a function.
    if (typeof made === 'function' && made.name === '') Object.defineProperty(made, 'name', { value: name })
    return made
  }
}
