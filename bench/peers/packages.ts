import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A contender's package is missing. */
export class NotInstalled extends Error {
  override readonly name = 'NotInstalled'
}

/** Imports a package of a contender. `Shape` lists the parts of its exports that the contender uses. */
export async function loadPackage<Shape>(name: string): Promise<Shape> {
  const { load } = (await import(pathToFileURL(loader()).href)) as {
    readonly load: (name: string) => Promise<Shape>
  }
  try {
    return await load(name)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`)) throw new NotInstalled(name)
    throw error
  }
}

/** The compiled files are in a directory below the project, so this looks in all directories above. */
function loader(): string {
  for (let directory = import.meta.dirname; ; directory = dirname(directory)) {
    const file = join(directory, 'bench/packages.js')
    if (existsSync(file)) return file
    if (directory === dirname(directory)) throw new Error('bench/packages.js is missing')
  }
}
