/**
 * Calls the tools for models with inputs that are wrong, huge or hostile: directly, and through an MCP client. Each call
 * must give a result. A result that is an error must have a code other than INTERNAL, and nothing may have changed.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { inspect } from 'node:util'
import { workspaceServer } from '../../src/adapters/mcp/index.js'
import { workspaceTools } from '../../src/adapters/tools/index.js'
import { openEngine, type Engine, type Session } from '../../src/index.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import { connected } from '../support/mcp-world.js'
import type { AttackOptions, AttackResult } from './attacks.js'
import { attempt, pictureOfPrototypes, placesIn, setAt } from './hostile-places.js'
import { hostileValues } from './hostile-values.js'

type Random = (below: number) => number
type Input = Readonly<Record<string, unknown>>

/** Calls on one session before it is replaced. */
const callsPerSession = 200
/** Calls with the same hostile values, some of which are slow to create. */
const callsPerValues = 50
/** A call that takes longer counts as hanging. */
const hangMs = 10_000

const patch = '*** Begin Patch\n*** Update File: /a\n@@\n-one\n+two\n*** End Patch'
const unified = '--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-one\n+two\n three\n'
const paths = [
  '/a',
  '/d',
  '/d/b',
  '/none',
  '/new/file',
  '/',
  '../../etc/passwd',
  '/a/b',
  '/a\0b',
  '__proto__',
  '/__proto__/x',
  'C:\\Windows',
  `/${'n'.repeat(300)}`,
]
const texts = [
  'one',
  '',
  '$&',
  '\r\n',
  '\uFEFF',
  '\uD800',
  '(',
  '(?=a)',
  '[',
  '**/**/**',
  '{a,b}',
  'main',
  '-1',
]

/** Inputs that fit the schemas of the tools that both sets have. */
const shared: Readonly<Record<string, readonly Input[]>> = {
  apply_patch: [{ patch }, { patch: unified }, { patch, dry_run: true }],
  glob: [{ pattern: '**/*.ts', path: '/d' }],
  grep: [
    { pattern: 'o', path: '/', glob: '*', output_mode: 'content', '-A': 1, '-n': true, head_limit: 2 },
    { pattern: 'o.t', multiline: true, output_mode: 'count', type: 'md', offset: 1, '-i': true },
  ],
  checkpoint: [{ label: 'first' }],
  restore: [
    { label: 'start', dry_run: true },
    { label: 'start', paths: ['/a'] },
  ],
  undo: [{ count: 1, unit: 'event', dry_run: true }, {}],
  redo: [{ count: 1 }],
  diff: [{ checkpoint: 'start' }, {}],
  fork: [{ label: 'a try' }],
  switch_workspace: [{ workspace: 'main' }],
  list_workspaces: [{}],
  delete_fork: [{ workspace: 'main' }],
  merge: [{ workspace: 'main', conflicts: 'ours', dry_run: true }],
  history: [{ file_path: '/a' }],
}

const ofTools: Readonly<Record<string, readonly Input[]>> = {
  ...shared,
  str_replace_based_edit_tool: [
    { command: 'view', path: '/a', view_range: [1, -1] },
    { command: 'create', path: '/new', file_text: 'text' },
    { command: 'str_replace', path: '/a', old_str: 'one', new_str: 'two' },
    { command: 'insert', path: '/a', insert_line: 1, insert_text: 'text' },
  ],
  memory: [
    { command: 'view', path: '/memories' },
    { command: 'create', path: '/memories/a', file_text: 'text' },
    { command: 'str_replace', path: '/memories/kept', old_str: 'kept', new_str: 'two' },
    { command: 'insert', path: '/memories/kept', insert_line: 0, insert_text: 'text' },
    { command: 'delete', path: '/memories/kept' },
    { command: 'rename', old_path: '/memories/kept', new_path: '/memories/other' },
  ],
  read: [{ file_path: '/a', offset: 1, limit: 2 }],
  edit: [{ file_path: '/a', old_string: 'one', new_string: 'two', replace_all: true }],
  write: [{ file_path: '/new', content: 'text' }],
}

const ofServer: Readonly<Record<string, readonly Input[]>> = {
  ...shared,
  read_text_file: [{ path: '/a', head: 1 }, { path: '/a', tail: 1 }, { path: '/a' }],
  read_media_file: [{ path: '/a' }],
  read_multiple_files: [{ paths: ['/a', '/none'] }],
  write_file: [{ path: '/new', content: 'text' }],
  edit_file: [{ path: '/a', edits: [{ oldText: 'one', newText: 'two' }], dryRun: false }],
  create_directory: [{ path: '/new' }],
  list_directory: [{ path: '/d' }],
  list_directory_with_sizes: [{ path: '/d', sortBy: 'size' }],
  directory_tree: [{ path: '/', excludePatterns: ['*.md'] }],
  move_file: [{ source: '/a', destination: '/moved' }],
  search_files: [{ path: '/', pattern: '*', excludePatterns: ['b'] }],
  get_file_info: [{ path: '/a' }],
  list_allowed_directories: [{}],
  lock: [{ path: '/a', timeoutSeconds: 1 }],
  unlock: [{ path: '/a', lockId: 'none' }],
  publish: [{ topic: 'news', payload: 'text' }],
  request_approval: [{ reason: 'DELETE_ALL', summary: 'text' }],
}

export async function hostileTools({ n, seed, onProgress }: AttackOptions): Promise<AttackResult> {
  const words = randomWords(seed)
  const random: Random = (below) => words() % below
  const found = new Map<string, number>()
  const report = (text: string): void => {
    const count = found.get(text) ?? 0
    if (count === 0) onProgress(text)
    found.set(text, count + 1)
  }
  const prototypes = pictureOfPrototypes()
  // The clock does not advance, so nothing expires between two comparisons of the state.
  const engine = await openEngine({ environment: fixedEnvironment({ stepMs: 0, seed }) })
  const outcomes = { refused: 0, succeeded: 0 }
  try {
    let values = hostileValues()
    let world = await openWorld(engine)
    let before = await stateOf(world)
    for (let call = 0; call < n; call++) {
      if (call % callsPerSession === callsPerSession - 1) {
        await world.close()
        world = await openWorld(engine)
        before = await stateOf(world)
      }
      if (call % callsPerValues === 0) values = hostileValues()
      const { name, label, given, run } = pick(random, world.targets)
      const input = hostile(random, values, pick(random, given), name === 'mcp')
      const answer = await answerOf(run, input)
      const shown = `${name} ${label}(${shownOf(input)})`
      if (answer.problem !== undefined) report(`${shown} ${answer.problem}`)
      const after = await stateOf(world)
      if (answer.isError) {
        outcomes.refused++
        if (after !== before) report(`${shown} failed and changed the session`)
      } else outcomes.succeeded++
      before = after
      if (pictureOfPrototypes() !== prototypes) {
        report(`${shown} changed a global prototype`)
        break
      }
    }
    await world.close()
  } finally {
    await engine.close()
  }
  const line = `${n} calls: ${outcomes.refused} refused, ${outcomes.succeeded} carried out; ${found.size} findings`
  return { line, failed: found.size > 0 }
}

interface Target {
  readonly name: 'tools' | 'mcp'
  readonly label: string
  readonly given: readonly Input[]
  readonly run: (input: unknown) => Promise<unknown>
}

interface World {
  readonly engine: Engine
  readonly session: Session
  readonly targets: readonly Target[]
  readonly close: () => Promise<void>
}

async function openWorld(engine: Engine): Promise<World> {
  const files = { '/a': 'one\nthree\n', '/d/b': 'b', '/memories/kept': 'kept\n' }
  const session = await engine.sessions.create({ files })
  await session.checkpoint({ checkpointLabel: 'start' })
  await session.files.write({ path: '/c', content: 'c' })
  const tools = workspaceTools(session)
  const server = workspaceServer(session)
  const client = await connected(server)
  const { tools: listed } = await client.listTools()
  const targets: Target[] = []
  for (const [label, tool] of Object.entries(tools))
    targets.push({ name: 'tools', label, given: inputsOf(ofTools, label), run: (input) => tool.call(input) })
  for (const { name: label } of listed) {
    const run = (input: unknown): Promise<unknown> =>
      client.callTool({ name: label, arguments: input as Record<string, unknown> })
    targets.push({ name: 'mcp', label, given: inputsOf(ofServer, label), run })
  }
  const close = async (): Promise<void> => {
    await client.close()
    await server.close()
    for (const { id } of (await engine.sessions.list()).sessions) await engine.sessions.delete(id)
  }
  return { engine, session, targets, close }
}

/** A tool without inputs here would escape the attack. */
function inputsOf(table: Readonly<Record<string, readonly Input[]>>, label: string): readonly Input[] {
  const inputs = table[label]
  if (inputs === undefined) throw new Error(`add inputs of the tool ${label} to this attack`)
  return inputs
}

/** The state that a failed call must not change. */
async function stateOf({ engine, session }: World): Promise<string> {
  const { manifestHash } = await session.manifest({ pageSize: 1 })
  const state = [
    manifestHash,
    await session.events.verify(),
    await session.listCheckpoints(),
    await session.get(),
    await session.fileLocks.list(),
    await session.approvals.list(),
    (await engine.sessions.list()).sessions.map(({ id }) => id),
  ]
  return JSON.stringify(state, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part))
}

/** An input of which at least one part is hostile. An MCP client sends JSON, so its inputs are JSON. */
function hostile(random: Random, values: readonly unknown[], given: Input, asJson: boolean): unknown {
  const wrong = (): unknown => {
    const value = pick(random, [paths, texts, values][random(3)]!)
    return asJson ? jsonOf(value) : value
  }
  if (!asJson && random(20) === 0) return wrong()
  const copy = [structuredClone(given) as Record<string, unknown>]
  const places = [...placesIn(copy[0], [0])]
  if (places.length === 0 || random(12) === 0) {
    const name = pick(random, ['__proto__', 'constructor', 'extra', 'path'])
    // An own property, as JSON.parse creates it.
    Object.defineProperty(copy[0], name, { value: wrong(), enumerable: true })
    return copy[0]
  }
  for (let times = 1 + random(2); times > 0; times--)
    attempt(() => setAt(copy, pick(random, places), wrong()))
  return asJson ? jsonOf(copy[0]) : copy[0]
}

/** The value as JSON carries it; null if JSON cannot. */
function jsonOf(value: unknown): unknown {
  try {
    return JSON.parse(JSON.stringify(value) ?? 'null')
  } catch {
    return null
  }
}

interface Answer {
  readonly isError: boolean
  readonly problem?: string
}

interface Result {
  readonly isError?: boolean
  readonly data?: Input
  readonly structuredContent?: Input
}

async function answerOf(run: Target['run'], input: unknown): Promise<Answer> {
  const timer = new AbortController()
  const late = delay(hangMs, 'hangs' as const, { signal: timer.signal }).catch(() => 'hangs' as const)
  try {
    const result = await Promise.race([run(input) as Promise<Result>, late])
    if (result === 'hangs') return { isError: true, problem: 'hangs' }
    if (result.isError !== true) return { isError: false }
    const reason = (result.data ?? result.structuredContent)?.['reason']
    const isCoded = typeof reason === 'string' && /^[A-Z_]+$/.test(reason) && reason !== 'INTERNAL'
    return isCoded ? { isError: true } : { isError: true, problem: `gives the reason ${String(reason)}` }
  } catch (error) {
    return { isError: true, problem: `fails with ${inspect(error).slice(0, 400)}` }
  } finally {
    timer.abort()
  }
}

function shownOf(input: unknown): string {
  try {
    return inspect(input, { depth: 3, maxStringLength: 60 }).slice(0, 200)
  } catch {
    return 'a value that cannot be shown'
  }
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[random(values.length)]!
}
