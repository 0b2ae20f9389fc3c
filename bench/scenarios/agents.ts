import { openEngine } from 'forkspace'
import { workspaceShell } from 'forkspace/just-bash'
import { Bash, InMemoryFs } from 'just-bash'
import { expect, race, type Contestant } from '../support/measure.js'
import { timingRow } from '../support/rows.js'
import type { Context, Row, Scenario } from '../support/scenario.js'

/** Operations of agents, compared with those of the frameworks that they come from. */
export const agents: Scenario = {
  name: 'agents',
  title: 'Agents: commands of a shell, each one event of a session',
  clock: 'cpu',
  async *run(context) {
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
