import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { TestProject } from 'vitest/node'

/**
 * Creates a directory for each run. It is in the project root so that files in it can import packages, including this
 * one.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const parent = resolve(import.meta.dirname, '../../.tmp')
  await mkdir(parent, { recursive: true })
  const directory = await mkdtemp(join(parent, 'run-'))
  project.provide('runDirectory', directory)
  return () => rm(directory, { recursive: true, force: true })
}
