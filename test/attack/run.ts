/**
 * The long forms of the attacks from the command line; `npm run attack -- --help` lists them. Exits with 1 when an
 * attack succeeded, with 2 for wrong arguments.
 */
import process from 'node:process'
import { parseArgs } from 'node:util'
import { attacks } from './attacks.js'

const usage = [
  'npm run attack -- <name> [--n N] [--seed 1]',
  '',
  ...Object.entries(attacks).map(([name, { text, n }]) => `  ${name.padEnd(18)}  ${text} (--n ${n})`),
].join('\n')

process.exitCode = await main()

async function main(): Promise<number> {
  const { name, n, seed, help } = readArguments()
  if (help) {
    console.log(usage)
    return 0
  }
  const attack = Object.hasOwn(attacks, name) ? attacks[name] : undefined
  if (attack === undefined)
    return refuse(name === '' ? 'Name one of the attacks.' : `There is no attack "${name}".`)
  const tries = wholeNumber(n, attack.n)
  const start = wholeNumber(seed, Date.now() % 2 ** 31)
  if (tries === undefined || start === undefined) return refuse('--n and --seed take whole numbers.')
  console.log(`FORKSPACE_SEED=${start}`)
  // Some calls wait on timers that do not keep a process alive.
  const alive = setInterval(() => undefined, 60_000)
  const { line, failed } = await attack
    .run({ n: tries, seed: start, onProgress: (text) => console.log(text) })
    .finally(() => clearInterval(alive))
  console.log(`${name}: ${line}`)
  return failed ? 1 : 0
}

function readArguments(): { name: string; n?: string; seed?: string; help: boolean } {
  const options = {
    n: { type: 'string' },
    seed: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  } as const
  try {
    const { values, positionals } = parseArgs({ allowPositionals: true, options })
    const { n, seed = process.env['FORKSPACE_SEED'], help = false } = values
    return {
      name: positionals.join(' '),
      ...(n !== undefined && { n }),
      ...(seed !== undefined && { seed }),
      help,
    }
  } catch {
    return { name: '', help: false }
  }
}

function wholeNumber(text: string | undefined, byDefault: number): number | undefined {
  if (text === undefined) return byDefault
  const value = text.trim() === '' ? NaN : Number(text)
  return Number.isSafeInteger(value) && value >= 0 ? value : undefined
}

function refuse(message: string): number {
  console.error(`${message}\n${usage}`)
  return 2
}
