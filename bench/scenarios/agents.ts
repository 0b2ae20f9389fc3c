import { performance } from 'node:perf_hooks'
import { openEngine, type Engine } from 'forkspace'
import { workspaceShell } from 'forkspace/just-bash'
import { workspaceTools, type ToolResult } from 'forkspace/tools'
import { Bash, InMemoryFs } from 'just-bash'
import { expect, race, type Contestant } from '../support/measure.js'
import { singleRow, timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

/** Operations of agents, compared with those of the frameworks that they come from. */
export const agents: Scenario = {
  name: 'agents',
  title: 'Agents: calls of tools, and commands of a shell, each one event of a session',
  clock: 'cpu',
  async *run(context) {
    yield* toolCalls(context)
    yield* manyAgents(context)
    yield* shellCommands(context)
  },
}

const commands = {
  'grep -r': () => 'grep -rl "value 7" src | wc -l',
  'cat | wc': () => 'cat src/d1/*.txt | wc -l',
  // Each round changes the files again.
  'sed -i': (round: number) => `sed -i "s/^round.*/round ${round}/" src/d2/*.txt; grep -c round src/d2/1.txt`,
  'mkdir, echo': (round: number) =>
    `mkdir -p out/${round} && echo ${round} > out/${round}/f && ls out | wc -l > n`,
}

/** Calls of tools, compared with the operations that they call. A call costs at most twice as much. */
async function* toolCalls(context: Context): AsyncGenerator<Row> {
  const calls = context.count(2000)
  const files = filesOf(200)
  const path = '/src/d1/3.txt'
  await using engine = await openEngine()
  const session = await engine.sessions.create({ files })
  const native = await engine.sessions.create({ files })
  const tools = workspaceTools(session)
  const checked = async (call: Promise<ToolResult>): Promise<void> => {
    const { isError, text } = await call
    expect(!isError, text)
  }
  const mark = (call: number): { callId: string; turn: string } => ({
    callId: `call_${call}`,
    turn: 'turn 1',
  })
  const operations = {
    read: {
      tool: (call: number) => checked(tools.read.call({ file_path: path }, mark(call))),
      peers: { 'the operation itself': () => native.text.readLines({ path }) },
    },
    edit: {
      tool: (call: number) =>
        checked(
          tools.edit.call(
            { file_path: path, old_string: changeOf(call).oldText, new_string: changeOf(call).newText },
            mark(call),
          ),
        ),
      peers: {
        'the operation itself': (call: number) => native.text.edit({ path, ...changeOf(call) }),
        'with id, turn, hunks': (call: number) =>
          native
            .group('turn 1')
            .withMetadata({ callId: `call_${call}` })
            .text.edit({ path, ...changeOf(call), context: 4 }),
      },
    },
    grep: {
      tool: (call: number) =>
        checked(tools.grep.call({ pattern: 'value 7', output_mode: 'content' }, mark(call))),
      peers: { 'the operation itself': () => native.text.grep({ pattern: 'value 7' }) },
    },
  }
  for (const [name, { tool, peers }] of Object.entries(operations)) {
    const repeated = (call: (index: number) => Promise<unknown>): Contestant => ({
      count: calls * 2,
      run: async (): Promise<void> => {
        for (let index = 0; index < calls * 2; index++) await call(index)
      },
    })
    const contestants: Record<string, Contestant> = { ours: repeated(tool) }
    for (const [peer, operation] of Object.entries(peers)) contestants[peer] = repeated(operation)
    const { ours, ...timings } = await race(contestants, { rounds: context.rounds })
    for (const [peer, timing] of Object.entries(timings))
      yield timingRow({
        what: `tool: ${name}, with a call id and a turn`,
        ours: ours!,
        peer: { name: peer, timing },
        clock: 'cpu',
      })
  }
}

/** An edit that changes the file in each call. */
function changeOf(call: number): { readonly oldText: string; readonly newText: string } {
  return call % 2 === 0 ? { oldText: 'round', newText: 'ROUND' } : { oldText: 'ROUND', newText: 'round' }
}

/** 100 agents on one engine, each in a fork of its own: read, edit, grep, and undo. */
async function* manyAgents(context: Context): AsyncGenerator<Row> {
  const agentCount = context.count(100)
  await using engine = await openEngine()
  const times: number[] = []
  for (let round = 0; round < context.rounds; round++) times.push(await workOfAgents(engine, agentCount))
  yield singleRow(`${agentCount} agents at once, 4 calls each: time of all`, 'time', Math.min(...times))
}

async function workOfAgents(engine: Engine, count: number): Promise<number> {
  const base = await engine.sessions.create({ files: filesOf(200) })
  const start = performance.now()
  await Promise.all(
    Array.from({ length: count }, async (_, agent) => {
      const tools = workspaceTools(await base.fork())
      const path = `/src/d${agent % 10}/3.txt`
      const results = [
        await tools.read.call({ file_path: path }),
        await tools.edit.call({ file_path: path, old_string: 'round', new_string: `agent ${agent}` }),
        await tools.grep.call({ pattern: `agent ${agent}$` }),
        await tools.undo.call({}),
      ]
      for (const { isError, text } of results) expect(!isError, text)
      expect(results[2]?.text === path, 'grep does not find the edit')
    }),
  )
  return performance.now() - start
}

/** Commands of just-bash on a session, compared with the same on its file system in memory. */
async function* shellCommands(context: Context): AsyncGenerator<Row> {
  const calls = context.count(50)
  const files = filesOf(200)
  await using engine = await openEngine()
  for (const [name, command] of Object.entries(commands)) {
    const session = await engine.sessions.create({ files })
    const shell = workspaceShell(session)
    const bash = new Bash({ fs: new InMemoryFs(files), cwd: '/' })
    const same = [await shell.exec(command(0)), await bash.exec(command(0))]
    expect(same[0]?.stdout === same[1]?.stdout && same[0]?.exitCode === 0, `${name} gives another result`)
    const repeated = (exec: (source: string) => Promise<unknown>): Contestant => {
      let round = 0
      return {
        count: calls,
        run: async (): Promise<void> => {
          for (let call = 0; call < calls; call++) await exec(command(++round))
        },
      }
    }
    const timings = await race(
      { ours: repeated((source) => shell.exec(source)), peer: repeated((source) => bash.exec(source)) },
      { rounds: context.rounds },
    )
    yield timingRow({
      what: `just-bash: ${name}, 200 files`,
      ours: timings.ours,
      peer: { name: 'InMemoryFs', timing: timings.peer },
      clock: 'cpu',
    })
  }
}

/** Texts of 20 lines in ten directories. */
function filesOf(count: number): Record<string, string> {
  const lines = Array.from({ length: 20 }, (_, line) => `line ${line}`).join('\n')
  return Object.fromEntries(
    Array.from({ length: count }, (_, file) => [
      `/src/d${file % 10}/${Math.floor(file / 10)}.txt`,
      `round\n${lines}\nvalue ${file}\n`,
    ]),
  )
}
