import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHttpHandler, staticTokens } from '../../src/adapters/http/index.js'
import type { OperationExample } from '../contract/example.js'
import { operations, type Operation, type OperationName } from '../../src/engine/contract.js'
import { openEngine } from '../../src/index.js'
import { fixedEnvironment } from '../../src/testing.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const hashOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`

/** A tar with README.md and src/main.ts. */
const archive =
  'H4sIAAAAAAAC/+3UMQ7CMAyF4cycwhJ7SUMEE0MlOrJwg6h0YGhaJang+KRMwE4R6v8ttuzB0/O5ro6nuugu6nt0trP2WbPPOm1f+mm+N0Yr0WoGY0wu5JNqmdZSDcNKYaFiaDadu/oixd/lf1u+57/U2hjyP4f2PvQhSdP7mMT5eGuDHMQaXgIAAAAAAAAAAAAAAMB/eAAMO/mbACgAAA=='

const readme = '# App\n'
const main = 'export const answer = 42\n'
const report = '<testsuite><testcase name="adds"/><testcase name="divides"><failure/></testcase></testsuite>'

const ids = /\b[0-9a-hjkmnp-tv-z]{36}\b/g

/**
 * Calls every operation at least once over HTTP and records requests and responses. Every run gives the same result:
 * ids are numbered in order of appearance, and the clock does not advance.
 */
export async function recordStory(seed: number): Promise<OperationExample[]> {
  const environment = fixedEnvironment({ seed, stepMs: 0, startMs: Date.UTC(2026, 0, 31, 8) })
  // A remote that never responds, so that running jobs can be observed.
  const remote = createServer(() => undefined)
  remote.listen(0, '127.0.0.1')
  await once(remote, 'listening')
  const remoteOrigin = `http://127.0.0.1:${(remote.address() as AddressInfo).port}`
  await using engine = await openEngine({ environment, git: { allowPrivateAddresses: true } })
  const scope = engine.as({ tenant: 'acme', principal: 'ann' })
  const handler = createHttpHandler(engine, {
    authenticate: staticTokens({ token: { tenant: 'acme', principal: 'ann' } }),
  })
  const examples: OperationExample[] = []

  const send = (name: OperationName, request: Fields): [OperationExample, Promise<Response>] => {
    environment.advance(1000)
    const operation: Operation = operations[name]
    const parameters: Record<string, unknown> = {}
    const body: Record<string, unknown> = { ...request }
    const take = (parameter: string): unknown => {
      parameters[parameter] = request[parameter]
      delete body[parameter]
      return request[parameter]
    }
    let url = operation.path.replaceAll(/\{(\w+)\}/g, (_all, parameter: string) =>
      encodeURIComponent(String(take(parameter))),
    )
    const query = (operation.query ?? [])
      .filter((parameter) => request[parameter] !== undefined)
      .flatMap((parameter) =>
        [take(parameter)].flat().map((value) => `${parameter}=${encodeURIComponent(String(value))}`),
      )
    if (query.length > 0) url += `?${query.join('&')}`
    const takesBody = operation.method !== 'GET' && operation.method !== 'DELETE'
    const response = handler.fetch(
      new Request(`http://localhost${url}`, {
        method: operation.method,
        headers: {
          authorization: 'Bearer token',
          ...(takesBody && { 'content-type': 'application/json' }),
        },
        ...(takesBody && { body: JSON.stringify(body) }),
      }),
    )
    const example = {
      operation: name,
      name: '',
      parameters,
      ...(takesBody && { body }),
      status: 0,
      response: {},
    }
    return [example, response]
  }

  const step = async (
    label: string,
    name: OperationName,
    request: Fields,
    expectedStatus = 200,
  ): Promise<Fields> => {
    const [example, answering] = send(name, request)
    const answer = await answering
    const response = (await answer.json()) as Fields
    if (answer.status !== expectedStatus)
      throw new Error(`seed ${seed}: ${name} (${label}): ${answer.status} ${JSON.stringify(response)}`)
    examples.push({ ...example, name: label, status: answer.status, response })
    return response
  }

  /** Like {@link step}, with the first item of a stream. */
  const firstItem = async (label: string, name: OperationName, request: Fields): Promise<void> => {
    const [example, answering] = send(name, request)
    const stream = await answering
    examples.push({ ...example, name: label, status: stream.status, response: await firstLine(stream) })
  }

  const done = async (job: Fields): Promise<void> => {
    await scope.sources.waitForJob(job as unknown as { sourceId: string; jobId: string })
  }

  // Sources and their jobs.
  const upload = await step('an uploaded snapshot', 'createSource', {
    displayName: 'App',
    uploadedSnapshot: {},
    labels: { team: 'web' },
  })
  const { sourceId } = upload
  const git = await step('a git remote', 'createSource', {
    displayName: 'App on git',
    gitRemote: { remoteUrl: `${remoteOrigin}/app.git`, defaultRef: 'main', credentialsSecretId: '' },
  })
  const imported = await step('an uploaded snapshot', 'startImport', {
    sourceId,
    uploadedSnapshot: { content: archive },
  })
  await done(imported)
  await step('a job that has ended', 'getJob', { sourceId, jobId: imported['jobId'] })
  await step('of a source', 'listJobs', { sourceId, pageSize: 10 })
  const running = await step('a git remote', 'startImport', {
    sourceId: git['sourceId'],
    git: { gitRef: 'main' },
  })
  await step('a job that runs', 'abortJob', { sourceId: git['sourceId'], jobId: running['jobId'] })
  const refreshed = await step('a git remote', 'refreshSource', { sourceId: git['sourceId'], gitRef: 'v2' })
  await scope.sources.abortJob(refreshed as never)
  await step('a source', 'getSource', { sourceId })
  await step('those of a team', 'listSources', { filter: 'team=web', pageSize: 100 })

  // Sessions.
  const session = await step('on a source', 'createSession', {
    sourceRef: { sourceId, revisionId: '' },
    initialTags: { agent: 'coder-1', task: '512' },
  })
  const sessionId = session['id']
  const other = await step('with files', 'createSession', {
    files: [{ path: '/notes.md', content: base64('to do\n') }],
  })
  await step('a session', 'getSession', { sessionId })
  await step('no such session', 'getSession', { sessionId: '0'.repeat(36) }, 404)
  await step('those of a task', 'listSessions', { filter: 'task=512', pageSize: 100 })

  // Files.
  await step('a directory', 'createDirectory', { sessionId, path: '/docs', mode: 0o755 })
  await step('a directory that exists', 'createDirectory', { sessionId, path: '/docs' }, 409)
  await step('a batch', 'applyBatch', {
    sessionId,
    operations: [
      { write: { path: '/docs/guide.md', content: base64('# Guide\n'), expectedHash: '' } },
      { delete: { path: '/README.md', expectedHash: hashOf(readme) } },
      {
        segmentWrite: {
          path: '/data.bin',
          segments: [
            { data: { offset: '0', content: base64('head') } },
            { hole: { offset: '4', length: '4092' } },
          ],
          logicalSize: '4096',
          expectedHash: '',
          mode: 0o600,
        },
      },
    ],
  })
  await step('a file that changed', 'applyBatch', staleBatch(sessionId), 409)
  const { extents } = await step('a file with a hole', 'getCasExtents', { sessionId, path: '/data.bin' })
  await step('data and a borrowed range', 'patchSegments', {
    sessionId,
    mutations: [
      {
        path: '/data.bin',
        segments: [
          { data: { offset: '4092', content: base64('tail') } },
          {
            borrowed: { offset: '100', length: '4', hash: (extents as Fields[])[0]!['hash'], casOffset: '0' },
          },
        ],
      },
      { path: '/docs/guide.md', segments: [], expectedHash: hashOf('another') },
    ],
    conflictPolicy: 'SEGMENT_CONFLICT_POLICY_SKIP_ON_CONFLICT',
  })
  await step('a file', 'writeFile', {
    sessionId,
    path: '/src/main.ts',
    content: base64('export const answer = 43\n'),
    expectedHash: hashOf(main),
  })
  await step(
    'a file that changed',
    'writeFile',
    {
      sessionId,
      path: '/src/main.ts',
      content: base64('export const answer = 44\n'),
      expectedHash: hashOf(main),
    },
    409,
  )
  await step('a line', 'appendFile', {
    sessionId,
    path: '/docs/guide.md',
    content: base64('Read it.\n'),
  })
  await step('a part of a file', 'readFile', { sessionId, path: '/docs/guide.md', offset: '2', length: '5' })
  await step('a file', 'copyFile', {
    sessionId,
    sourcePath: '/docs/guide.md',
    destinationPath: '/docs/copy.md',
    exclusive: true,
  })
  await step('a mode', 'setAttributes', { sessionId, path: '/docs/copy.md', mode: 0o600 })
  await step('a file', 'rename', {
    sessionId,
    sourcePath: '/docs/copy.md',
    destinationPath: '/docs/draft.md',
  })
  await step('a symlink', 'createSymlink', { sessionId, linkPath: '/latest', target: 'docs/guide.md' })
  await step('all symlinks', 'listSymlinks', { sessionId, pathPrefix: '/', pageSize: 100 })
  await step('a symlink', 'readSymlink', { sessionId, path: '/latest' })
  await step('no symlink', 'readSymlink', { sessionId, path: '/src/main.ts' }, 400)
  await step('a second name', 'createHardLink', {
    sessionId,
    srcPath: '/docs/guide.md',
    dstPath: '/docs/second.md',
  })
  await step('a file', 'statPath', { sessionId, path: '/docs/guide.md', includeContentHash: true })
  await step('one of two names', 'unlink', { sessionId, path: '/docs/second.md' })
  await step('all of a session', 'listDirectory', { sessionId, path: '/', recursive: true })
  await step('a line', 'readLines', { sessionId, path: '/docs/guide.md', startLine: 1, limit: 1 })
  await step('a text', 'editFile', {
    sessionId,
    path: '/docs/guide.md',
    oldText: '# Guide',
    newText: '# The guide',
    context: 1,
    dryRun: true,
  })
  await step(
    'no match',
    'editFile',
    { sessionId, path: '/docs/guide.md', oldText: '# Gide', newText: '' },
    400,
  )
  await step('a patch', 'applyPatch', {
    sessionId,
    patch: '*** Begin Patch\n*** Add File: docs/added.md\n+# Added\n*** End Patch\n',
    expectedHashes: { '/docs/added.md': '' },
  })
  await step('all documents', 'globPaths', { sessionId, patterns: ['docs/*.md'], order: 'path' })
  await step('a word', 'grepFiles', { sessionId, pattern: '^# \\w+', globs: ['*.md'], limit: 10 })
  await step('an attribute', 'setXattr', {
    sessionId,
    path: '/docs/guide.md',
    name: 'user.language',
    value: base64('en'),
  })
  await step('an attribute', 'getXattr', { sessionId, path: '/docs/guide.md', name: 'user.language' })
  await step('of a file', 'listXattrs', { sessionId, path: '/docs/guide.md' })
  await step('an attribute', 'removeXattr', { sessionId, path: '/docs/guide.md', name: 'user.language' })
  const manifest = await step('the first page', 'getManifest', {
    sessionId,
    pathPrefix: '/docs/',
    includeCasExtents: true,
    pageSize: 1,
  })
  await step('the last page', 'getManifest', {
    sessionId,
    pathPrefix: '/docs/',
    pageSize: 1,
    pageToken: manifest['nextPageToken'],
  })
  await step('a page of less than nothing', 'getManifest', { sessionId, pageSize: -1 }, 400)

  // Checkpoints, forks and diffs.
  const checkpoint = await step('a checkpoint', 'createCheckpoint', {
    sessionId,
    label: 'before-review',
    metadata: { turn: 3 },
  })
  await step('a file', 'deleteFile', { sessionId, path: '/docs/draft.md' })
  await step('a checkpoint and the newest state', 'diff', {
    sessionId,
    from: { checkpointLabel: 'before-review' },
    to: {},
  })
  await step('the changed lines and a patch', 'diffFiles', {
    sessionId,
    from: { checkpointLabel: 'before-review' },
    globs: ['*.md'],
    renames: 'exact',
    context: 1,
    hunks: true,
    patch: true,
  })
  await step('all checkpoints', 'listCheckpoints', { sessionId })
  await step('those of a turn', 'listCheckpoints', { sessionId, metadata: '{"turn":3}' })
  await step('a checkpoint', 'forkSession', {
    sourceSessionId: sessionId,
    sourceCheckpointLabel: 'before-review',
    newTags: { agent: 'coder-2' },
    metadata: { turn: 3 },
  })
  await step('those of a turn', 'listSessions', { metadata: '{"turn":3}' })
  await step('a checkpoint', 'restoreCheckpoint', { sessionId, checkpointId: checkpoint['id'] })
  await step('a directory that is not empty', 'removeDirectory', { sessionId, path: '/docs' }, 400)
  await step('a directory', 'removeDirectory', { sessionId, path: '/docs', recursive: true })
  await step('a checkpoint by its label', 'restoreCheckpoint', {
    sessionId,
    checkpointLabel: 'before-review',
  })

  // Earlier states.
  const here = { checkpointLabel: 'before-review' }
  const { eventId } = await step('a checkpoint', 'resolveState', { sessionId, ...here })
  await step('a file', 'readFileAt', { sessionId, at: here, path: '/docs/guide.md' })
  await step('a file', 'statPathAt', { sessionId, at: { eventId }, path: '/docs/guide.md' })
  await step('a directory', 'listDirectoryAt', { sessionId, at: { eventId }, path: '/docs' })
  await step('a page', 'getManifestAt', { sessionId, at: { base: true }, pageSize: 10 })
  await step('a change', 'undo', { sessionId })
  await firstItem('a batch', 'watchChanges', {
    sessionId,
    globs: ['docs/**'],
    debounceMs: 0,
    afterEventId: eventId,
  })
  await step('a preview', 'redo', { sessionId, dryRun: true })
  await step('a change', 'redo', { sessionId })
  await step('a file', 'restoreState', { sessionId, from: { eventId }, paths: ['/docs/draft.md'] })
  await step('a preview', 'restoreState', { sessionId, from: { base: true }, dryRun: true })
  await step('an event', 'forkSession', { sourceSessionId: sessionId, from: { eventId } })
  await step('a file', 'listPathHistory', { sessionId, path: '/docs/guide.md' })
  await step('a file', 'blame', { sessionId, path: '/docs/guide.md' })
  await step('an event that does not exist', 'resolveState', { sessionId, eventId: 'none' }, 400)

  await step('a checkpoint by its label', 'deleteCheckpoint', {
    sessionId,
    checkpointLabel: 'before-review',
  })

  // Merges.
  const draft = await step('for a merge', 'createSession', {
    files: [{ path: '/a.txt', content: base64('one\n') }],
  })
  const attempt = await step('for an attempt', 'forkSession', { sourceSessionId: draft['id'] })
  await step('the relatives', 'getLineage', { sessionId: draft['id'], with: attempt['id'] })
  const change = (name: string, id: unknown, content: string): Promise<unknown> =>
    step(name, 'applyBatch', {
      sessionId: id,
      operations: [{ write: { path: '/a.txt', content: base64(content) } }],
    })
  await change('of the target of a merge', draft['id'], 'ours\n')
  await change('of its source', attempt['id'], 'theirs\n')
  const merge = { sessionId: draft['id'], source: { sessionId: attempt['id'] } }
  await step('a preview', 'mergeSession', { ...merge, dryRun: true })
  await step('a policy', 'mergeSession', { ...merge, policies: [{ glob: '**', policy: 'fail' }] }, 409)
  await step('with a conflict', 'mergeSession', merge)
  await step('of a merge', 'listConflicts', { sessionId: draft['id'] })
  await step('its sides', 'readConflict', { sessionId: draft['id'], path: '/a.txt' })
  await step('a merge', 'abortMerge', { sessionId: draft['id'] })
  await step('with a conflict again', 'mergeSession', merge)
  await step('with new content', 'resolveConflict', {
    sessionId: draft['id'],
    path: '/a.txt',
    content: base64('both\n'),
  })
  await step('with one side', 'resolveConflicts', { sessionId: draft['id'], use: 'ours' })
  await step('onto the latest revision', 'rebaseSession', { sessionId })

  // Locks.
  const owner = { ownerId: 'coder-1', pid: 4711, clientId: 'worker-a' }
  const range = { start: '0', length: '100' }
  const kind = 'POSIX_LOCK_KIND_EXCLUSIVE'
  const path = '/data.bin'
  await step('a range', 'setPosixLock', { sessionId, path, kind, range, owner })
  await step('a conflict', 'getPosixLock', {
    sessionId,
    path,
    kind: 'POSIX_LOCK_KIND_SHARED',
    range: { start: '50', length: '0' },
    owner: { ownerId: 'coder-2' },
  })
  await step(
    'a range that is locked',
    'setPosixLock',
    { sessionId, path, kind, owner: { ownerId: 'coder-2' } },
    409,
  )
  await step('a range that is free', 'setPosixLockBlocking', {
    sessionId,
    path,
    kind,
    range: { start: '100', length: '0' },
    owner,
  })
  await step('a file', 'flock', { sessionId, path, mode: 'POSIX_FLOCK_MODE_SHARED', owner, blocking: true })
  await step('a range', 'funlock', { sessionId, path, owner, range, isFlock: false })
  const { lockId } = await step('a path', 'lockFile', {
    sessionId,
    path: '/src/main.ts',
    timeoutSeconds: 300,
  })
  await step(
    'a path that is locked',
    'lockFile',
    { sessionId, path: '/src/main.ts', timeoutSeconds: 300 },
    409,
  )
  await step('a lock', 'renewFileLock', { sessionId, path: '/src/main.ts', lockId, timeoutSeconds: 600 })
  await step('of a directory', 'listFileLocks', { sessionId, pathPrefix: '/src/' })
  await step('a lock', 'unlockFile', { sessionId, path: '/src/main.ts', lockId })
  await step('a lock that is gone', 'unlockFile', { sessionId, path: '/src/main.ts', lockId }, 404)
  await step('another path', 'lockFile', { sessionId, path: '/docs/guide.md', timeoutSeconds: 60 })
  await step('a lock', 'forceUnlockFile', { sessionId, path: '/docs/guide.md', reason: 'its holder is gone' })

  // Review and commit.
  const { annotation } = await step('a line', 'addAnnotation', {
    sessionId,
    filePath: '/src/main.ts',
    lineNumber: 1,
    expectedContentHash: hashOf('export const answer = 43\n'),
    comment: 'Why 43?',
  })
  await step('of a file', 'listAnnotations', { sessionId, filePath: '/src/main.ts' })
  await step('a resolved annotation', 'updateAnnotationStatus', {
    sessionId,
    annotationId: (annotation as Fields)['id'],
    newStatus: 'ANNOTATION_STATUS_RESOLVED',
  })
  const { summary, changedFiles } = await step('since the base', 'generateCommitSummary', { sessionId })
  const approval = await step('an approval', 'requestApproval', {
    sessionId,
    reason: 'COMMIT_TO_MAIN',
    details: { summary, changedFiles },
  })
  await step('an approval', 'grantApproval', { sessionId, ...approval })
  await step('an approval that was decided', 'grantApproval', { sessionId, ...approval }, 400)
  const second = await step('another approval', 'requestApproval', { sessionId })
  await step('an approval', 'denyApproval', { sessionId, ...second, feedback: 'Not before the tests pass.' })
  await step('all approvals', 'listApprovals', { sessionId })
  const { commitId } = await step('a commit', 'commit', {
    sessionId,
    message: 'Correct the answer',
    author: { name: 'Ann', email: 'ann@example.org' },
  })
  await step('all commits', 'listCommits', { sessionId })
  await step('a commit', 'getCommit', { sessionId, commitId })
  await step('a file', 'readCommitFile', { sessionId, commitId, path: '/docs/guide.md' })

  // Cache.
  const key = 'build/main'
  await step('an entry', 'putCacheEntry', { sessionId, key, value: base64('built'), ttlSeconds: 3600 })
  await step('an entry', 'getCacheEntry', { sessionId, key })
  await step('no entry', 'getCacheEntry', { sessionId, key: 'build/none' })
  await step('an entry', 'cacheEntryExists', { sessionId, key })
  await step('an entry', 'getCacheMetadata', { sessionId, key })
  await step('no entry', 'getCacheMetadata', { sessionId, key: 'build/none' }, 404)
  await step('an entry that is unchanged', 'compareAndSetCacheEntry', {
    sessionId,
    key,
    expectedValue: base64('built'),
    newValue: base64('built again'),
  })
  await step('an entry that changed', 'compareAndSetCacheEntry', { sessionId, key, newValue: base64('mine') })
  await step('two entries', 'batchSetCache', {
    sessionId,
    entries: [
      { key: 'test/a', value: base64('1'), ttlSeconds: 60 },
      { key: 'test/b', value: base64('2') },
    ],
  })
  await step('two keys', 'batchGetCache', { sessionId, keys: ['test/a', 'none'] })
  await step('a page', 'listCacheKeys', { sessionId, prefix: 'test/', pageSize: 100 })
  await step('the cache', 'getCacheStats', { sessionId })
  await step('an entry', 'deleteCacheEntry', { sessionId, key })
  await step('two keys', 'batchDeleteCache', { sessionId, keys: ['test/a', 'none'] })
  await step('a prefix', 'deleteCacheByPrefix', { sessionId, prefix: 'test/' })

  // Messages.
  await step('a message', 'publishMessage', { sessionId, topic: 'progress', payload: base64('50 %') })
  await firstItem('a message', 'subscribe', {
    sessionId,
    topics: ['progress'],
    scope: 'SESSION_ONLY',
    replayLimit: 1,
  })

  // Health, secrets and usage.
  await step('before the first report', 'getHealth', { sessionId })
  await step('a report', 'reportHealth', {
    sessionId,
    reportFormat: 'junit-xml/v1',
    reportContent: base64(report),
  })
  await step('a report', 'listHealthReports', { sessionId, pageSize: 10 })
  await step('a secret', 'putSecret', { sessionId, secretName: 'API_TOKEN', secretValue: 'not-for-files' })
  await step('all secrets', 'listSecrets', { sessionId, scope: 'SECRET_SCOPE_SESSION' })
  await step('a secret', 'getSecret', { sessionId, secretName: 'API_TOKEN' })
  await step('a secret', 'deleteSecret', {
    sessionId,
    secretName: 'API_TOKEN',
    scope: 'SECRET_SCOPE_SESSION',
  })
  await step('no such secret', 'getSecret', { sessionId, secretName: 'API_TOKEN' }, 404)
  await step('a session', 'getAnalytics', { sessionId })
  await step('the first events', 'listEvents', {
    sessionId,
    startTime: '2026-01-31T00:00:00Z',
    endTime: '2026-01-31T08:00:17Z',
    pageSize: 100,
  })
  const promoted = await step('a session', 'promoteSession', { sourceId, sessionId, revisionLabel: 'v2' })
  await done(promoted)
  await step('a day', 'getUsage', {
    windowStart: '2026-01-31T00:00:00Z',
    windowEnd: '2026-02-01T00:00:00Z',
    granularity: 'day',
  })
  await step(
    'a window that ends before it starts',
    'getUsage',
    {
      windowStart: '2026-02-01T00:00:00Z',
      windowEnd: '2026-01-31T00:00:00Z',
    },
    400,
  )
  await step('the tenant', 'getCasMetrics', {})
  await step('a session', 'deleteSession', { sessionId: other['id'] })
  await step('a source', 'deleteSource', { sourceId: git['sourceId'] })
  remote.closeAllConnections()
  remote.close()
  return settled(examples, remoteOrigin)
}

type Fields = Record<string, unknown>

function staleBatch(sessionId: unknown): Fields {
  return { sessionId, operations: [{ delete: { path: '/src/main.ts', expectedHash: hashOf('another') } }] }
}

async function firstLine(response: Response): Promise<object> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('\n')) {
    const { done, value } = await reader.read()
    if (done) break
    text += value
  }
  await reader.cancel()
  return JSON.parse(text.slice(0, text.indexOf('\n'))) as object
}

/** Replaces values that differ between runs. */
function settled(examples: readonly OperationExample[], remoteOrigin: string): OperationExample[] {
  const known = new Map<string, string>()
  const text = JSON.stringify(examples)
    .replaceAll(remoteOrigin, 'https://git.example.org')
    .replaceAll(/"inode":"\d+"/g, '"inode":"4503599627370449"')
    .replaceAll(ids, (id) => {
      if (/^0+$/.test(id)) return id
      const settledId = known.get(id) ?? plausibleId(known.size)
      known.set(id, settledId)
      return settledId
    })
  return JSON.parse(text) as OperationExample[]
}

function plausibleId(index: number): string {
  const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
  const random = createHash('sha256').update(`id ${index}`).digest()
  const digits = Array.from({ length: 26 }, (_, at) => alphabet[random[at]! % 32]!)
  let tick = Date.UTC(2026, 0, 31, 8) * 32 + index * 32_000
  let time = ''
  for (let at = 0; at < 10; at++) {
    time = alphabet[tick % 32]! + time
    tick = Math.floor(tick / 32)
  }
  return time + digits.join('')
}
