import { contents } from '../../support/project-files.js'
import { randomWords } from '../../support/random-words.js'
import type { Files, Workspace } from '../contender.js'
import {
  compare,
  createFilled,
  fileBytes,
  makeDirectories,
  repeat,
  sampleFiles,
  type Scenario,
} from './scenario.js'

const filesOfEach = 50
const appendBytes = 100
const writers = 64

/** Each session works in its own workspace: 60 % reads, 20 % writes, 10 % stats, 5 % lists and 5 % appends. */
const mixed: Scenario = {
  name: 'mixed',
  title: ({ sessions }) => `operation of ${sessions} sessions at once: 60 % read, 20 % write`,
  needs: ['write', 'read', 'stat', 'list', 'append'],
  async start({ plan, store }) {
    const opened = await store()
    const files = sampleFiles(filesOfEach)
    const bodies = contents(64, fileBytes, 5)
    const piece = Buffer.alloc(appendBytes, 1)
    const share = Math.max(10, Math.ceil((plan.count * 2) / plan.sessions))
    const workspaces: Workspace[] = []
    for (let i = 0; i < plan.sessions; i++) workspaces.push(await createFilled(opened, files))
    /** The operations that each session did, by round. */
    const done: number[][] = []
    return {
      async run(round) {
        const counts = await Promise.all(
          workspaces.map((workspace, session) => {
            const next = steps(session, round, files.length)
            return repeat(plan, share, () => {
              const { kind, file, body } = next()
              const path = files[file]![0]
              if (kind === 'write') return workspace.write!(path, bodies[body]!)
              if (kind === 'append') return workspace.append!(path, piece)
              if (kind === 'list') return workspace.list!(path.slice(0, path.lastIndexOf('/')))
              return kind === 'stat' ? workspace.stat!(path) : workspace.read!(path)
            })
          }),
        )
        done.push(counts)
        return counts.reduce((sum, count) => sum + count, 0)
      },
      /** Repeats the steps of each session on a model. */
      async check() {
        const problems = new Set<string>()
        for (const [session, workspace] of workspaces.entries()) {
          const model = files.map(([path, content]) => [path, content] as [string, Uint8Array])
          for (const [round, counts] of done.entries()) {
            const next = steps(session, round, files.length)
            for (let i = 0; i < counts[session]!; i++) {
              const { kind, file, body } = next()
              if (kind === 'write') model[file]![1] = bodies[body]!
              else if (kind === 'append') model[file]![1] = Buffer.concat([model[file]![1], piece])
            }
          }
          for (const problem of await compare(workspace, model, ' in a session')) problems.add(problem)
        }
        return [...problems]
      },
    }
  },
}

type Kind = 'read' | 'write' | 'stat' | 'list' | 'append'

/** The same session and round give the same steps. */
function steps(
  session: number,
  round: number,
  files: number,
): () => { kind: Kind; file: number; body: number } {
  const next = randomWords(round * 1000 + session + 1)
  return () => {
    const part = next() % 100
    const kind = part < 60 ? 'read' : part < 80 ? 'write' : part < 90 ? 'stat' : part < 95 ? 'list' : 'append'
    return { kind, file: next() % files, body: next() % 64 }
  }
}

/**
 * Writers that wait for their own acknowledgements. A store can acknowledge many of them after one wait for the disk, so
 * the limit writes the files of all writers at once.
 */
const together: Scenario = {
  name: 'writers',
  title: () => `write of 1 KiB by ${writers} writers at once`,
  needs: ['write', 'read'],
  guarantees: ['survives kill -9', 'survives power loss'],
  async start({ plan, store, limit }) {
    const opened = await store()
    const share = Math.max(2, Math.ceil((plan.count * 2) / writers))
    const workspaces: Workspace[] = []
    for (let i = 0; i < writers; i++) workspaces.push(limit && i > 0 ? workspaces[0]! : await opened.create())
    let files: Files = []
    let done: number[] = []
    const of = (writer: number, number: number): Files[number] => files[writer * share + number]!
    for (const workspace of workspaces) await makeDirectories(workspace, sampleFiles(share * writers))
    return {
      async prepare(round) {
        files = sampleFiles(share * writers, round + 2)
      },
      async run() {
        if (limit) {
          const [workspace] = workspaces as [Workspace]
          const all = (number: number): Files => workspaces.map((_, writer) => of(writer, number))
          const rounds = await repeat(plan, share, (number) => workspace.batch!(all(number)))
          done = workspaces.map(() => rounds)
        } else {
          const writeAll = (workspace: Workspace, writer: number): Promise<number> =>
            repeat(plan, share, (number) => workspace.write!(...of(writer, number)))
          done = await Promise.all(workspaces.map(writeAll))
        }
        return done.reduce((sum, count) => sum + count, 0)
      },
      async check() {
        const problems = new Set<string>()
        for (const [writer, workspace] of workspaces.entries()) {
          const own = Array.from({ length: done[writer]! }, (_, number) => of(writer, number))
          for (const problem of await compare(workspace, own, ' of a writer')) problems.add(problem)
        }
        return [...problems]
      },
    }
  },
}

export const sessionScenarios: readonly Scenario[] = [mixed, together]
