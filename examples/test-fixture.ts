// Three tests share one fixture. Each gets a fork of it, so tests never see each other's files.
import assert from 'node:assert/strict'
import type * as nodeFs from 'node:fs'
import { assertTree, fixture, type FixtureSession } from 'forkspace/testing'

await using project = await fixture({
  files: { '/package.json': '{ "version": "1.0.0" }\n', '/src/index.js': 'export {}\n' },
})

await test('raises the version', async (session) => {
  await bump(session.fs)
  await assertTree(session, { 'package.json': /"2\.0\.0"/, 'src/index.js': 'export {}\n' })
})
await test('starts from the fixture again', async (session) => {
  await assertTree(session, { 'package.json': /"1\.0\.0"/ }, { contains: true })
})
await test('needs a package.json', async (session) => {
  session.fs.rmSync('/package.json')
  await assert.rejects(bump(session.fs), { code: 'ENOENT' })
})

/** The code under test. It takes the file system as a parameter, as many tools do. */
async function bump({ promises }: Pick<typeof nodeFs, 'promises'>): Promise<void> {
  const manifest = JSON.parse(await promises.readFile('/package.json', 'utf8')) as { version: string }
  const major = Number(manifest.version.split('.')[0]) + 1
  await promises.writeFile('/package.json', JSON.stringify({ ...manifest, version: `${major}.0.0` }))
}

/** A test runner in five lines. */
async function test(title: string, body: (session: FixtureSession) => Promise<void>): Promise<void> {
  await using session = await project.fork()
  await body(session)
  console.log(`ok - ${title}`)
}

// Prints:
// ok - raises the version
// ok - starts from the fixture again
// ok - needs a package.json
