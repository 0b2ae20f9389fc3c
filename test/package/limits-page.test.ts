import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { archiveLimits } from '../../src/adapters/archive/limits.js'
import { cliLimits } from '../../src/adapters/cli/limits.js'
import { clientLimits } from '../../src/adapters/client/limits.js'
import { gitLimits } from '../../src/adapters/git/limits.js'
import { gitServerLimits } from '../../src/adapters/git-server/limits.js'
import { hostLimits } from '../../src/adapters/host/limits.js'
import { defaultHttpLimits, serverLimits } from '../../src/adapters/http/limits.js'
import { inspectorLimits } from '../../src/adapters/inspector/limits.js'
import { pageLimits } from '../../src/adapters/inspector/page/limits.js'
import { justBashLimits } from '../../src/adapters/just-bash/limits.js'
import { junitLimits } from '../../src/adapters/junit/limits.js'
import { postgresLimits } from '../../src/adapters/postgres/limits.js'
import { s3Limits } from '../../src/adapters/s3/limits.js'
import { webdavLimits } from '../../src/adapters/webdav/limits.js'
import { limits } from '../../src/index.js'

/** The limits of the engine and its adapters, by their names on the page. */
const all = new Map<string, unknown>(
  Object.entries({
    limits,
    archive: archiveLimits,
    cli: cliLimits,
    client: clientLimits,
    git: gitLimits,
    gitServer: gitServerLimits,
    host: hostLimits,
    http: defaultHttpLimits,
    inspector: inspectorLimits,
    junit: junitLimits,
    page: pageLimits,
    postgres: postgresLimits,
    s3: s3Limits,
    server: serverLimits,
    shell: justBashLimits,
    webdav: webdavLimits,
  }).flatMap(([owner, values]) =>
    Object.entries(values).map(([name, value]) => [`${owner}.${name}`, value] as const),
  ),
)

const units = { GiB: 2 ** 30, MiB: 2 ** 20, KiB: 2 ** 10 }

/** A value as on the page: bytes in the largest unit without a fraction, times in seconds. */
function shown(name: string, value: number): string {
  if (name.endsWith('Ms')) return `${(value / 1000).toLocaleString('en-US')} seconds`
  const count = value.toLocaleString('en-US')
  if (/Seconds(Max)?$/.test(name)) return `${count} seconds`
  if (!name.endsWith('Bytes')) return count
  for (const [unit, size] of Object.entries(units))
    if (value >= size && value % size === 0) return `${value / size} ${unit}`
  return `${count} bytes`
}

test('the page of limits has the values of the code', () => {
  const page = readFileSync(join(resolve(import.meta.dirname, '../..'), 'docs/limits.md'), 'utf8')
  const rows = [...page.matchAll(/^\|[^|]*\|([^|]*)\| *`([a-z]+\.[A-Za-z]+)` *\|/gm)]
  const documented = rows.map(([, value, name]) => [name, value!.trim()])
  expect(documented.length).toBeGreaterThan(60)
  expect(documented).toEqual(
    documented.map(([name]) => [name, all.has(name!) ? shown(name!, all.get(name!) as number) : 'unknown']),
  )
})
