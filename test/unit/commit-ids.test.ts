/** The keys and the contents of the lists of pushed commits. */
import { expect, test } from 'vitest'
import { limits } from '../../src/engine/ports.js'
import {
  containedCommitsKey,
  pushedCommitsKey,
  pushedCommitsRecord,
} from '../../src/engine/services/sources/commit-ids.js'

test('each remote and each imported commit of a tenant has a list of its own', () => {
  const keys = ['a', 'b'].flatMap((tenantKey) => [
    pushedCommitsKey({ tenantKey }, { remoteUrl: 'https://example.org/x' }),
    pushedCommitsKey({ tenantKey }, { remoteUrl: 'https://example.org/y' }),
    pushedCommitsKey({ tenantKey }, { repositoryPath: 'https://example.org/x' }),
    pushedCommitsKey({ tenantKey }, { repositoryPath: '/y' }),
    containedCommitsKey({ tenantKey }, '1'),
    containedCommitsKey({ tenantKey }, '2'),
  ])
  expect(new Set(keys).size).toBe(keys.length)
  const remote = { remoteUrl: 'https://example.org/x' }
  // Other credentials lead to the same repository.
  expect(pushedCommitsKey({ tenantKey: 'a' }, { ...remote, credentialsSecretId: 'id' })).toBe(keys[0])
})

test('a list has each commit and state once, and the newest ones up to its limit', () => {
  const commit = (n: number): { commitId: string } => ({ commitId: String(n) })
  const state = (seq: number): { sessionId: string; seq: number } => ({ sessionId: 's', seq })
  expect(
    pushedCommitsRecord([
      { ...commit(1), state: state(2) },
      { ...commit(1), state: state(1) },
      { ...commit(1), state: state(2) },
      commit(1),
      commit(1),
    ]),
  ).toEqual(['1 s 2', '1 s 1', '1'])
  const many = Array.from({ length: limits.pushedCommits + 1 }, (_, n) => commit(n))
  expect(pushedCommitsRecord(many)).toEqual(many.slice(0, -1).map(({ commitId }) => commitId))
})
