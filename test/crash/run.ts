/**
 * The crash tests from the command line.
 *
 *   npm run crash -- kill --n 200 [--seed 1] [--durability full|relaxed]
 *
 * Exits with 1 when anything acknowledged was lost, or an operation was there in part.
 */
import process from 'node:process'
import { parseArgs } from 'node:util'
import { runKills } from './kill.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    n: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    durability: { type: 'string', default: 'full' },
  },
})
const { durability } = values
const [kills, seed] = [Number(values.n), Number(values.seed)]
if (
  positionals.join() !== 'kill' ||
  !(kills > 0) ||
  !Number.isInteger(seed) ||
  (durability !== 'full' && durability !== 'relaxed')
) {
  console.error('usage: npm run crash -- kill [--n 200] [--seed 1] [--durability full|relaxed]')
  process.exit(2)
}
console.log(`seed ${seed}, durability ${durability}`)
const result = await runKills({ kills, seed, durability, onProgress: (line) => console.log(line) })
const count = (value: number): string => value.toLocaleString('en-US')
console.log(
  `kill: ${count(result.kills)} kills, ${count(result.acknowledged)} acknowledged, ${count(result.lost)} lost, ` +
    `${count(result.torn)} torn, slowest open ${Math.round(result.slowestOpenMs)} ms`,
)
process.exitCode = result.lost + result.torn === 0 ? 0 : 1
