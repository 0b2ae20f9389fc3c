import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Session } from '../../src/index.js'

/** The entries of a host directory, including itself, by relative path: kind, mode, and content or target. */
export function hostFiles(directory: string): Record<string, string> {
  const found: Record<string, string> = {}
  const add = (path: string): void => {
    for (const name of readdirSync(directory + path)) {
      const child = `${path}/${name}`
      const stat = lstatSync(join(directory, child))
      const mode = (stat.mode & 0o7777).toString(8)
      if (stat.isSymbolicLink()) found[child] = `-> ${readlinkSync(join(directory, child))}`
      else if (stat.isDirectory()) found[child] = `directory ${mode}`
      else if (stat.isFile()) found[child] = `file ${mode} ${readFileSync(join(directory, child), 'latin1')}`
      else found[child] = 'other'
      if (stat.isDirectory()) add(child)
    }
  }
  add('')
  return sorted(found)
}

/** The same for a session. */
export async function sessionFiles(session: Session): Promise<Record<string, string>> {
  const { promises } = session.fs
  const found: Record<string, string> = {}
  const add = async (path: string): Promise<void> => {
    for (const name of await promises.readdir(path || '/')) {
      const child = `${path}/${name}`
      const stat = await promises.lstat(child)
      const mode = (stat.mode & 0o777).toString(8)
      if (stat.isSymbolicLink()) found[child] = `-> ${await promises.readlink(child)}`
      else if (stat.isDirectory()) found[child] = `directory ${mode}`
      else found[child] = `file ${mode} ${Buffer.from(await promises.readFile(child)).toString('latin1')}`
      if (stat.isDirectory()) await add(child)
    }
  }
  await add('')
  return sorted(found)
}

function sorted(found: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
}
