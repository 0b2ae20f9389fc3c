import type { Session } from '../../engine/index.js'
import { viewOf } from './tree-json.js'

type SessionModule = Session['fs']

/** Replacements for the modules of Node, each with a default export. */
export interface FsModules {
  /** For `node:fs` and `fs`. */
  readonly fs: SessionModule & DefaultExport<SessionModule>
  /** For `node:fs/promises` and `fs/promises`. */
  readonly promises: SessionModule['promises'] & DefaultExport<SessionModule['promises']>
}

/** The default export of a module. */
export interface DefaultExport<Module> {
  /** The module itself. */
  readonly default: Module
}

/**
 * Replacements for `node:fs` and `node:fs/promises`, for a test runner that can mock modules. Each call goes to the
 * session that `current` returns at that moment, so that each test can have a fork of its own.
 *
 * @throws {EngineError} INVALID_ARGUMENT if `current` does not return a session.
 *
 * @example
 * const { fs, promises } = fsModules(() => session)
 * fs.writeFileSync('/a.txt', 'one')
 * console.log(await promises.readFile('/a.txt', 'utf8'))
 */
export function fsModules(current: () => Pick<Session, 'fs'>): FsModules {
  const fs = delegating(() => viewOf(current()) as SessionModule)
  const promises = delegating(() => viewOf(current()).promises)
  const module = { ...fs, promises }
  return { fs: { ...module, default: module }, promises: { ...promises, default: promises } }
}

/** An object with the properties of another one, whose functions call those of the newest one. */
function delegating<Module extends object>(current: () => Module): Module {
  const properties = Object.entries(current()).map(([name, value]) => [
    name,
    typeof value === 'function' ? delegate(() => Reflect.get(current(), name) as Callable) : value,
  ])
  return Object.fromEntries(properties) as Module
}

type Callable = (new (...args: unknown[]) => object) & ((...args: unknown[]) => unknown)

function delegate(current: () => Callable): object {
  // Every property of this function may be replaced, also `prototype`, which `instanceof` reads.
  function target(): void {}
  return new Proxy(target, {
    apply: (_target, _this, args: unknown[]) => current()(...args),
    construct: (_target, args: unknown[]) => Reflect.construct(current(), args),
    get: (_target, key) => Reflect.get(current(), key) as unknown,
  })
}
