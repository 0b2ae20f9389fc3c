import { copyFile, rm } from 'node:fs/promises'
import type { Contender, LargeFile, Workspace } from '../contender.js'
import { loadPackage } from '../packages.js'
import { numbered } from './fs-calls.js'

interface Handle {
  pread(offset: number, bytes: number): Promise<Uint8Array>
  pwrite(offset: number, content: Uint8Array): Promise<void>
  truncate(bytes: number): Promise<void>
}

interface Agent {
  readonly fs: {
    writeFile(path: string, content: Uint8Array): Promise<void>
    readFile(path: string): Promise<Uint8Array>
    stat(path: string): Promise<{ readonly size: number }>
    readdir(path: string): Promise<string[]>
    readdirPlus(
      path: string,
    ): Promise<{ readonly name: string; readonly stats: { isDirectory(): boolean } }[]>
    unlink(path: string): Promise<void>
    open(path: string): Promise<Handle>
  }
  getDatabase(): { exec(sql: string): Promise<unknown> }
  close(): Promise<void>
}

interface AgentFsPackage {
  readonly AgentFS: { open(options: { path: string }): Promise<Agent> }
}

/** The database has `PRAGMA synchronous = FULL` and a write-ahead log by default. */
export const agentfs: Contender = {
  name: 'AgentFS',
  family: 'AgentFS',
  guarantee: 'survives power loss',
  settings:
    'One database file per workspace, as the package opens it: a write-ahead log and synchronous = FULL. An append is stat and pwrite. A copy empties the log into the database and copies the file.',
  async open(directory) {
    const { AgentFS } = await loadPackage<AgentFsPackage>('agentfs-sdk')
    const nextPath = numbered(directory)
    const opened = new Set<Agent>()
    const at = async (path: string): Promise<Workspace> => {
      const agent = await AgentFS.open({ path })
      opened.add(agent)
      const copy = async (): Promise<Workspace> => {
        const to = `${nextPath()}.db`
        await agent.getDatabase().exec('PRAGMA wal_checkpoint(TRUNCATE)')
        await copyFile(path, to)
        return at(to)
      }
      return {
        ...workspace(agent),
        id: path,
        copy,
        async dispose() {
          opened.delete(agent)
          await agent.close()
          for (const suffix of ['', '-wal', '-shm']) await rm(path + suffix, { force: true })
        },
      }
    }
    return {
      create: () => at(`${nextPath()}.db`),
      resume: at,
      async close() {
        for (const agent of opened) await agent.close()
      },
    }
  },
}

function workspace(agent: Agent): Workspace {
  const { fs } = agent
  return {
    write: (path, content) => fs.writeFile(path, content),
    read: (path) => fs.readFile(path),
    stat: async (path) => (await fs.stat(path)).size,
    list: (path) => fs.readdir(path),
    async walk() {
      const paths: string[] = []
      const visit = async (directory: string): Promise<void> => {
        for (const { name, stats } of await fs.readdirPlus(directory || '/')) {
          const path = `${directory}/${name}`
          if (stats.isDirectory()) await visit(path)
          else paths.push(path)
        }
      }
      await visit('')
      return paths
    },
    async append(path, content) {
      const { size } = await fs.stat(path)
      await (await fs.open(path)).pwrite(size, content)
    },
    remove: (path) => fs.unlink(path),
    /** One transaction instead of one per statement. */
    async fill(files) {
      const database = agent.getDatabase()
      await database.exec('BEGIN')
      for (const [path, content] of files) await fs.writeFile(path, content)
      await database.exec('COMMIT')
    },
    async openLarge(path, bytes): Promise<LargeFile> {
      await fs.writeFile(path, new Uint8Array(1))
      const handle = await fs.open(path)
      await handle.truncate(bytes)
      return {
        patch: (offset, content) => handle.pwrite(offset, content),
        read: (offset, length) => handle.pread(offset, length),
      }
    },
  }
}
