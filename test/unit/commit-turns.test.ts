/** Commits of a session that wait for an earlier one. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openEngine } from '../../src/index.js'
import { GitRepository, hasGit } from '../support/git-repository.js'
import { serveGit } from '../support/git-server.js'

test.runIf(hasGit)(
  'end with their signal although the remote of the earlier one does not answer',
  async () => {
    const root = mkdtempSync(join(tmpdir(), 'commit-turns-'))
    const repository = GitRepository.create(join(root, 'r.git'))
    repository.stage([['100644', 'a', 'one']])
    repository.commit()
    let asked = (): void => undefined
    const push = new Promise<void>((resolve) => (asked = resolve))
    const server = await serveGit(root, {
      intercept: ({ method, url = '' }) => {
        if (method !== 'POST' || !url.endsWith('git-receive-pack')) return false
        asked()
        return true
      },
    })
    const engine = await openEngine({ git: { allowPrivateAddresses: true } })
    try {
      const gitRemote = { remoteUrl: `${server.url}/r.git`, defaultRef: 'main' }
      const { sourceId } = await engine.sources.create({ displayName: 'a', gitRemote })
      await engine.sources.waitForJob(await engine.sources.startImport(sourceId))
      const session = await engine.sessions.create({ sourceRef: { sourceId } })
      await session.files.write({ path: '/a', content: 'two' })
      const [first, second] = [new AbortController(), new AbortController()]
      const reasons = [new Error('first'), new Error('second')]
      const pushing = session.commit({
        message: 'first',
        gitBranch: { branchName: 'main' },
        signal: first.signal,
      })
      await push
      const waiting = session.commit({ message: 'second', signal: second.signal })
      second.abort(reasons[1])
      await expect(waiting).rejects.toBe(reasons[1])
      first.abort(reasons[0])
      await expect(pushing).rejects.toBe(reasons[0])
      await session.commit({ message: 'third' })
      expect((await session.commits.list()).commits.map(({ message }) => message.trim())).toEqual(['third'])
    } finally {
      await engine.close()
      await server.close()
      rmSync(root, { recursive: true, force: true })
    }
  },
)
