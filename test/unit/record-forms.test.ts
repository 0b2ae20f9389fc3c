/** For each field of each kind of record: the values that are valid, and those that count as damage. */
import { readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { idLength } from '../../src/engine/base/ids.js'
import type { EngineError } from '../../src/engine/ports.js'
import { annotationKind, AnnotationStatus } from '../../src/engine/records/annotation.js'
import { approvalKind, ApprovalStatus } from '../../src/engine/records/approval.js'
import type { Baseline } from '../../src/engine/records/baseline.js'
import { branchTipKind } from '../../src/engine/records/branch-tip.js'
import { busMessageKind } from '../../src/engine/records/bus-message.js'
import { cacheEntryKind } from '../../src/engine/records/cache-entry.js'
import {
  checkoutKind,
  furtherSeenFilesKind,
  seenDirectoryKind,
  seenFilesKind,
} from '../../src/engine/records/checkout.js'
import { checkpointKind } from '../../src/engine/records/checkpoint.js'
import { egressKind } from '../../src/engine/records/egress.js'
import { fileLockKind } from '../../src/engine/records/file-lock.js'
import { gitObjectKind } from '../../src/engine/records/git-object.js'
import { gitTreeKind } from '../../src/engine/records/git-tree.js'
import { healthReportKind, HealthStatus } from '../../src/engine/records/health-report.js'
import { importJobKind, ImportJobState } from '../../src/engine/records/import-job.js'
import { recordKinds } from '../../src/engine/records/index.js'
import { knownCommitsKind } from '../../src/engine/records/known-commits.js'
import { lineageKind } from '../../src/engine/records/lineage.js'
import { ConflictKind, mergeKind } from '../../src/engine/records/merge.js'
import { lastReadKind } from '../../src/engine/records/last-read.js'
import { usageRollupKind } from '../../src/engine/records/usage-rollup.js'
import { RecordKind, type RecordScope } from '../../src/engine/records/record-kind.js'
import { revisionKind, revisionLabelKind } from '../../src/engine/records/revision.js'
import { secretKind, SecretScope } from '../../src/engine/records/secret.js'
import { servedCommitKind } from '../../src/engine/records/served-commit.js'
import { sessionCountsKind } from '../../src/engine/records/session-counts.js'
import { sessionKind, SessionStatus } from '../../src/engine/records/session.js'
import { snapshotKind } from '../../src/engine/records/snapshot.js'
import { SourceKind, sourceKind, SourceStatus } from '../../src/engine/records/source.js'
import { unfinishedJobKind } from '../../src/engine/records/unfinished-job.js'
import { writtenBlobsKind } from '../../src/engine/records/written-blobs.js'

/** JSON values of a field. `undefined` means that the field is missing. */
interface Values {
  readonly right: readonly unknown[]
  readonly wrong: readonly unknown[]
}

type Fields<R> = { readonly [Field in keyof R]-?: Values }

interface Row {
  readonly kind: RecordKind<unknown>
  readonly scope: RecordScope
  readonly isDerived: boolean
  readonly forms: readonly [field: string | undefined, Values][]
  /** A record with the first valid value of each field. */
  readonly record: unknown
}

const text: Values = { right: ['', 'text'], wrong: [undefined, null, 1, true, ['text'], {}] }
const number: Values = {
  right: [0, 1, -1, 0.5, 2 ** 60],
  wrong: [undefined, null, '1', true, [1], {}],
}
const count: Values = {
  right: [0, 1, 2 ** 53 - 1],
  wrong: [undefined, null, '1', true, [1], {}, -1, 0.5, 2 ** 53],
}
const texts: Values = {
  right: [{}, { a: 'b' }],
  wrong: [undefined, null, 'text', 1, ['a'], [], { a: 'b', c: 1 }, { a: null }],
}
const root: Values = {
  right: [['d', 1, 2, 3, 4, 5, 'address', 0, 1]],
  wrong: [
    undefined,
    null,
    'd',
    {},
    [],
    ['d'],
    ['f', 1, 2, 3, 4, 5, 'address', 0, 1],
    ['d', '', 2, 3, 4, 5, 'address', 0, 1],
    ['d', 1, 2, 3, 4, 5, 6, 0, 1],
    ['d', 1, 2, 3, 4, 5, 'address', 0],
  ],
}
const onlyTrue: Values = { right: [true], wrong: [null, false, 1, 'true'] }

function optional({ right, wrong }: Values): Values {
  return { right: [...right, undefined], wrong: wrong.filter((value) => value !== undefined) }
}

function oneOf(names: Readonly<Record<string, string>>): Values {
  return {
    right: Object.values(names),
    wrong: [undefined, null, 0, '', 'NO_SUCH_NAME', ...Object.keys(names), [Object.values(names)[0]]],
  }
}

function listOf({ right, wrong }: Values): Values {
  return {
    right: [right.slice(0, 2), []],
    wrong: [undefined, null, {}, 'text', 1, ...withoutMissing(wrong).map((value) => [right[0], value])],
  }
}

function tupleOf(...items: readonly Values[]): Values {
  const whole = items.map(({ right }) => right[0])
  return {
    right: [whole],
    wrong: [
      undefined,
      null,
      {},
      'text',
      1,
      [],
      whole.slice(1),
      whole.slice(0, -1),
      [...whole, whole.at(-1)],
      ...items.flatMap(({ wrong }, i) => withoutMissing(wrong).map((value) => whole.with(i, value))),
    ],
  }
}

function objectOf<R>(fields: Fields<R>): Values {
  const whole = wholeOf(fields)
  const changed = (field: string, value: unknown): object => ({ ...whole, [field]: value })
  const all = Object.entries<Values>(fields)
  return {
    right: [
      whole,
      { ...whole, ofALaterVersion: 1 },
      ...all.flatMap(([field, { right }]) => right.map((value) => changed(field, value))),
    ],
    wrong: [
      undefined,
      null,
      'text',
      1,
      true,
      [],
      [whole],
      ...all.flatMap(([field, { wrong }]) => wrong.map((value) => changed(field, value))),
    ],
  }
}

function either(one: Values, other: Values): Values {
  return { right: [...one.right, ...other.right], wrong: [undefined, null, 1, true, {}] }
}

function withoutMissing(values: readonly unknown[]): unknown[] {
  return values.filter((value) => value !== undefined)
}

function wholeOf<R>(fields: Fields<R>): Record<string, unknown> {
  return Object.fromEntries(Object.entries<Values>(fields).map(([field, { right }]) => [field, right[0]]))
}

/** A kind whose records are objects. The compiler requires values for each field. */
function object<R>(
  kind: RecordKind<R>,
  scope: RecordScope,
  fields: Fields<R>,
  { isDerived = false } = {},
): Row {
  const forms = Object.entries<Values>(fields)
  return { kind: kind as RecordKind<unknown>, scope, isDerived, forms, record: wholeOf(fields) }
}

function value<R>(kind: RecordKind<R>, scope: RecordScope, values: Values, { isDerived = false } = {}): Row {
  const record = values.right[0]
  return { kind: kind as RecordKind<unknown>, scope, isDerived, forms: [[undefined, values]], record }
}

const baseline: Fields<Baseline> = {
  fingerprint: text,
  root,
  counts: optional(objectOf({ files: count, bytes: count })),
  revision: optional(
    objectOf({
      sourceId: text,
      revisionId: text,
      git: optional(objectOf({ commitId: text, treeId: text, root: optional(root) })),
    }),
  ),
}

const blobs = listOf(tupleOf(text, count))
const seenFiles = listOf(tupleOf(text, text, text))
const anyValue: Values = { right: [{}, [], null, 1, 'text'], wrong: [] }
const stored = { type: 'blob', size: 1 }

const anyObject: Values = { right: [{}, { a: [1, { b: null }] }], wrong: [null, [], 'text', 1] }
const rows: readonly Row[] = [
  object(sessionKind, 'tenant', {
    id: text,
    baseline: objectOf(baseline),
    base: optional(tupleOf(text, count)),
    start: optional(root),
    status: oneOf(SessionStatus),
    tags: texts,
    metadata: optional(anyObject),
    createdAt: number,
    conflicts: optional(count),
    pendingApprovals: optional(count),
    ttlSeconds: optional(number),
    setBacks: optional(listOf(tupleOf(count, number))),
    deletedAt: optional(number),
    collected: optional(onlyTrue),
  }),
  object(snapshotKind, 'session', { seq: count, at: number, chain: text, root, pruned: optional(onlyTrue) }),
  object(checkpointKind, 'session', {
    id: text,
    seq: count,
    label: text,
    createdAt: number,
    metadata: optional(anyObject),
  }),
  object(branchTipKind, 'session', { commitId: text, seq: optional(count) }),
  object(
    servedCommitKind,
    'session',
    { commitId: text, seq: count, base: text, root: optional(root) },
    { isDerived: true },
  ),
  object(fileLockKind, 'session', {
    path: text,
    lockId: text,
    ownerId: text,
    expiresAt: number,
    ttlSeconds: number,
  }),
  object(annotationKind, 'session', {
    id: text,
    sessionId: text,
    filePath: text,
    lineNumber: count,
    contentHash: text,
    comment: text,
    reviewerId: text,
    status: oneOf(AnnotationStatus),
    createdAt: text,
  }),
  object(approvalKind, 'session', {
    approvalId: text,
    sessionId: text,
    reason: text,
    summary: text,
    changedFiles: listOf(text),
    status: oneOf(ApprovalStatus),
    requestedBy: text,
    createdAt: text,
    decidedBy: text,
    decidedAt: text,
    feedback: text,
  }),
  object(cacheEntryKind, 'session', {
    key: text,
    order: number,
    createdAt: number,
    updatedAt: number,
    expiresAt: number,
    ttlSeconds: number,
    value: either(text, blobs),
  }),
  object(busMessageKind, 'session', {
    messageId: text,
    topic: text,
    payload: text,
    senderId: text,
    at: number,
  }),
  object(healthReportKind, 'session', {
    seq: count,
    status: oneOf(HealthStatus),
    testsPassed: count,
    testsFailed: count,
    testsSkipped: count,
    lastUpdatedAt: text,
    reportedBy: text,
  }),
  object(secretKind, 'session', {
    tenantKey: text,
    secretName: text,
    version: count,
    scope: oneOf(SecretScope),
    keyId: text,
    keyPrint: text,
    dataKey: text,
    value: text,
  }),
  value(lastReadKind, 'session', number),
  object(lineageKind, 'session', {
    seq: count,
    restored: optional(count),
    merged: optional(tupleOf(text, count)),
    rebased: optional(tupleOf(text, text)),
    before: optional(objectOf(baseline)),
    root: optional(root),
  }),
  object(mergeKind, 'session', {
    seq: count,
    names: objectOf({ base: text, ours: text, theirs: text }),
    base: root,
    ours: root,
    theirs: root,
    conflicts: listOf(
      objectOf({
        path: text,
        kind: oneOf(ConflictKind),
        base: optional(text),
        ours: optional(text),
        theirs: optional(text),
      }),
    ),
    rebased: optional(objectOf({ baseline: objectOf(baseline), tips: listOf(tupleOf(text, text)) })),
  }),
  object(
    sessionCountsKind,
    'session',
    {
      seq: count,
      mutations: count,
      checkpoints: count,
      restores: count,
      firstWriteAt: number,
      completedAt: number,
    },
    { isDerived: true },
  ),
  object(sourceKind, 'tenant', {
    sourceId: text,
    displayName: text,
    kind: oneOf(SourceKind),
    remote: optional(texts),
    path: optional(text),
    defaultRef: text,
    status: oneOf(SourceStatus),
    latestRevisionId: text,
    createdAt: number,
    updatedAt: number,
    createdBy: text,
    labels: texts,
    scannedRevisionId: optional(text),
    deletedAt: optional(number),
  }),
  object(importJobKind, 'tenant', {
    jobId: text,
    sourceId: text,
    state: oneOf(ImportJobState),
    revisionId: text,
    createdAt: text,
    startedAt: text,
    completedAt: text,
    errorCode: text,
    errorMessage: text,
    bytesProcessed: count,
    filesProcessed: count,
    bytesTransferred: optional(count),
  }),
  // Its text is not JSON, so any text is valid.
  value(unfinishedJobKind, 'tenant', { right: ['j1'], wrong: [] }),
  object(revisionKind, 'tenant', baseline),
  object(revisionLabelKind, 'tenant', { revisionId: text }),
  value(gitObjectKind, 'tenant', {
    right: [
      ...text.right.map((hash) => ({ ...stored, hash })),
      ...blobs.right.map((all) => ({ ...stored, blobs: all })),
    ],
    wrong: [
      ...withoutMissing(objectOf({ type: text, size: count, hash: text }).wrong),
      ...blobs.wrong.map((all) => ({ ...stored, blobs: all })),
      { type: 'blob', blobs: [] },
      { size: 1, blobs: [] },
    ],
  }),
  object(gitTreeKind, 'tenant', baseline),
  value(knownCommitsKind, 'tenant', listOf(text), { isDerived: true }),
  object(checkoutKind, 'tenant', { sessionId: text, trees: listOf(root) }),
  value(seenDirectoryKind, 'tenant', anyValue),
  object(seenFilesKind, 'tenant', { texts: count, files: seenFiles }),
  value(furtherSeenFilesKind, 'tenant', seenFiles),
  value(writtenBlobsKind, 'tenant', { right: [{}, []], wrong: [null, 1, 'text', true] }),
  value(egressKind, 'tenant', number),
  value(usageRollupKind, 'tenant', tupleOf(number, number, count)),
]

test('each kind of record has a row here', async () => {
  const directory = new URL('../../src/engine/records/', import.meta.url)
  const kinds = new Set<unknown>(recordKinds)
  for (const name of readdirSync(directory)) {
    const module = (await import(new URL(name, directory).href)) as object
    for (const exported of Object.values(module)) if (exported instanceof RecordKind) kinds.add(exported)
  }
  expect(new Set(rows.map(({ kind }) => kind))).toEqual(kinds)
  expect(kinds.size).toBe(rows.length)
})

describe.each(rows.map((row) => [row.kind.name, row.forms[0]![0] ?? 'a value', row] as const))(
  'the kind of record "%s" (%s)',
  (_name, _first, { kind, scope, isDerived, forms, record }) => {
    test('has the expected scope, and is derived only if repairs can rebuild it', () => {
      expect([kind.scope, kind.isDerived]).toEqual([scope, isDerived])
    })

    test.each(forms)('accepts valid values of %s and rejects others', (field, { right, wrong }) => {
      const changed = (one: unknown): unknown =>
        field === undefined ? one : { ...(record as object), [field]: one }
      const parse = (one: unknown): unknown =>
        kind.parse(kind === unfinishedJobKind ? (one as string) : JSON.stringify(changed(one)), 'a key')
      for (const one of right) expect(() => parse(one), JSON.stringify(one)).not.toThrow()
      const parsed = parse(right[0])
      expect(field === undefined ? parsed : (parsed as Record<string, unknown>)[field]).toEqual(right[0])
      for (const one of wrong)
        expect(() => parse(one), JSON.stringify(one)).toThrow(
          expect.objectContaining({
            reason: 'DATA_LOSS',
            message: expect.stringContaining(field === undefined ? '' : `the field ${field} is`) as string,
          }),
        )
    })
  },
)

test('tags and labels have only their own names as keys', () => {
  const texts = JSON.parse('{"__proto__":"a","constructor":"b"}') as unknown
  const { record: session } = rows.find(({ kind }) => kind === sessionKind)!
  const { record: source } = rows.find(({ kind }) => kind === sourceKind)!
  const { tags } = sessionKind.parse(JSON.stringify({ ...(session as object), tags: texts }))
  const { labels } = sourceKind.parse(JSON.stringify({ ...(source as object), labels: texts }))
  for (const one of [tags, labels]) {
    expect(Object.entries(one)).toEqual([
      ['__proto__', 'a'],
      ['constructor', 'b'],
    ])
    expect(one['toString']).toBeUndefined()
  }
})

test('a damaged record names its session, if it belongs to one', () => {
  const id = 'i'.repeat(idLength)
  const detailsOf = (kind: Pick<RecordKind<unknown>, 'parse'>, key: string): unknown => {
    try {
      return kind.parse('damaged', key)
    } catch (error) {
      return (error as EngineError).details
    }
  }
  const [ofSession, ofTenant] = [`k${id}${id}`, `j${id}${id}`]
  expect(detailsOf(checkpointKind, ofSession)).toEqual({ sessionId: id, key: ofSession })
  expect(detailsOf(importJobKind, ofTenant)).toEqual({ key: ofTenant })
})

test('an import job of an earlier version has transferred 0 bytes', () => {
  const { record } = rows.find(({ kind }) => kind === importJobKind)!
  const earlier = { ...(record as object), bytesTransferred: undefined }
  expect(importJobKind.parse(JSON.stringify(earlier)).bytesTransferred).toBe(0)
})
