// A test suite with one fixture. Each test gets a fork of it, so tests never see each other's files.
import assert from 'node:assert/strict'
import type * as nodeFs from 'node:fs'
import { openEngine, type Session } from 'forkspace'

await using engine = await openEngine()
const fixture = await engine.sessions.create({
  files: { '/package.json': '{ "name": "app", "version": "1.0.0" }\n', '/src/index.js': 'export {}\n' },
})

await test('raises the version', async ({ fs }) => {
  await bump(fs)
  assert.equal(JSON.parse(await fs.promises.readFile('/package.json', 'utf8')).version, '2.0.0')
})
await test('starts from the fixture again', async ({ fs }) => {
  assert.equal(JSON.parse(await fs.promises.readFile('/package.json', 'utf8')).version, '1.0.0')
})
await test('works without a package.json', async ({ fs }) => {
  fs.rmSync('/package.json')
  await assert.rejects(bump(fs), { code: 'ENOENT' })
})

/** The code under test. It takes the file system as a parameter, as many tools do. */
async function bump({ promises }: Pick<typeof nodeFs, 'promises'>): Promise<void> {
  const manifest = JSON.parse(await promises.readFile('/package.json', 'utf8')) as { version: string }
  const major = Number(manifest.version.split('.')[0]) + 1
  await promises.writeFile('/package.json', JSON.stringify({ ...manifest, version: `${major}.0.0` }))
}

async function test(title: string, body: (session: Session) => Promise<void>): Promise<void> {
  const session = await fixture.fork()
  await body(session)
  await session.delete()
  console.log(`ok - ${title}`)
}

// Prints:
// ok - raises the version
// ok - starts from the fixture again
// ok - works without a package.json
