import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openEngine } from '../../src/index.js'
import { fewStorages } from '../support/storages.js'

test.each(fewStorages)(
  'git shows the changes of a session in its checkout on %s',
  async (_name, makeStorage) => {
    const scratch = realpathSync(mkdtempSync(join(tmpdir(), 'checkout-git-')))
    const [repository, target] = [join(scratch, 'repository'), join(scratch, 'work')]
    const env = { PATH: process.env['PATH'], HOME: scratch, GIT_CONFIG_NOSYSTEM: '1' }
    const git = (cwd: string, ...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd, env }).toString()
    mkdirSync(join(repository, 'd/e'), { recursive: true })
    git(scratch, 'init', '-q', '-b', 'main', repository)
    for (const name of ['a', 'd/x', 'd-y', 'd/e/é', 'gone'])
      writeFileSync(join(repository, name), `${name}\n`)
    execFileSync('ln', ['-s', 'a', join(repository, 'link')])
    execFileSync('chmod', ['755', join(repository, 'd/x')])
    git(repository, 'add', '.')
    git(repository, 'commit', '-qm', 'first')
    git(repository, 'commit', '-qm', 'second', '--allow-empty')
    const engine = await openEngine({ storage: makeStorage(scratch), hostPaths: { roots: [scratch] } })
    try {
      const session = await engine.sessions.create({
        gitRepository: { path: repository, gitRef: 'main' },
      })
      const options = { git: true, ignore: ['cache/'] }
      const checkout = await session.checkout(target, options)
      const status = (): string => git(target, 'status', '--porcelain')
      expect(status()).toBe('')
      git(target, 'fsck', '--strict')
      expect(git(target, 'log', '-1', '--format=%s %H')).toBe(git(repository, 'log', '-1', '--format=%s %H'))
      await session.files.write({ path: '/a', content: 'changed\n' })
      await session.files.delete({ path: '/gone' })
      await session.files.write({ path: '/new', content: '' })
      await checkout.update()
      mkdirSync(join(target, 'cache'))
      writeFileSync(join(target, 'cache/x'), '')
      expect(status()).toBe(' M a\n D gone\n?? new\n')
      expect(git(target, 'diff', '--', 'a')).toContain('-a\n+changed\n')
      expect(await checkout.sync()).toEqual({ added: [], modified: [], removed: [] })
      const plain = await engine.sessions.create({ files: { '/a': '' } })
      await expect(plain.checkout(join(scratch, 'plain'), options)).rejects.toMatchObject({
        reason: 'COMMIT_NOT_FOUND',
      })
      git(scratch, 'init', '-q', join(scratch, 'theirs'))
      await expect(
        session.checkout(join(scratch, 'theirs'), { ...options, force: true }),
      ).rejects.toMatchObject({ reason: 'CHECKOUT_MODIFIED' })
    } finally {
      await engine.close()
      rmSync(scratch, { recursive: true, force: true })
    }
  },
)
