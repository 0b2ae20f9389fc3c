import type { Contender, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'

interface Fixture {
  readonly path: string
  mkdir(path: string): Promise<unknown>
  writeFile(path: string, content: Uint8Array): Promise<void>
  readFile(path: string): Promise<Uint8Array>
  readdir(path: string, options?: { recursive: true }): Promise<string[]>
  rm(path?: string): Promise<void>
}

interface FsFixture {
  readonly createFixture: (source: object | string, options: { tempDir: string }) => Promise<Fixture>
}

export const fsFixture: Contender = {
  name: 'fs-fixture',
  family: 'fs-fixture',
  guarantee: 'host',
  settings: 'One fixture per workspace, below the temporary directory. A copy is a fixture from a template.',
  async open(directory) {
    const { createFixture } = await loadPackage<FsFixture>('fs-fixture')
    const workspace = async (source: object | string): Promise<Workspace> => {
      const fixture = await createFixture(source, { tempDir: directory })
      return {
        mkdir: (path) => fixture.mkdir(path.slice(1)),
        write: (path, content) => fixture.writeFile(path.slice(1), content),
        read: (path) => fixture.readFile(path.slice(1)),
        list: (path) => fixture.readdir(path.slice(1)),
        walk: () => fixture.readdir('', { recursive: true }),
        remove: (path) => fixture.rm(path.slice(1)),
        copy: () => workspace(fixture.path),
        dispose: () => fixture.rm(),
      }
    }
    return { create: () => workspace({}), close: () => {} }
  },
}
