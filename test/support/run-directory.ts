import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { TestProject } from 'vitest/node'

/** Gives each run its directory. It is below the root, so that what stands there finds packages, this one too. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const parent = resolve(import.meta.dirname, '../../.tmp')
  await mkdir(parent, { recursive: true })
  const directory = await mkdtemp(join(parent, 'run-'))
  project.provide('runDirectory', directory)
  return () => rm(directory, { recursive: true, force: true })
}
