import { pathToFileURL } from 'node:url'
import type { Contender } from './contender.js'
import { contenders } from './contenders/index.js'

/** All contenders, with those that a module exports as `contenders`. */
export async function allContenders(module?: string): Promise<readonly Contender[]> {
  if (module === undefined) return contenders
  const { contenders: more } = (await import(pathToFileURL(module).href)) as {
    readonly contenders?: readonly Contender[]
  }
  if (!Array.isArray(more)) throw new Error(`${module} has no export contenders`)
  return [...contenders, ...more]
}

export async function findContender(name: string, module?: string): Promise<Contender> {
  return (await allContenders(module)).find((contender) => contender.name === name)!
}
