import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createReportReader } from '../../src/adapters/junit/index.js'
import { runs, seed } from '../support/seed.js'

interface Counts {
  passed: number
  failed: number
  skipped: number
}

type Node =
  | { readonly kind: 'suite' | 'test' | 'other' | 'failure' | 'error' | 'skipped'; readonly children: Node[] }
  | { readonly kind: 'text'; readonly text: string }

const names = { suite: 'testsuite', test: 'testcase', other: 'system-out' } as const

function outcome(content: Uint8Array): unknown {
  try {
    read(content)
    return 'read'
  } catch (error) {
    return (error as { reason?: unknown }).reason
  }
}

/** Text that looks like markup, and characters of one to four bytes. */
const word = fc.constantFrom(
  '<testcase/>',
  '</testcase>',
  '<failure>',
  ']]>',
  ']]',
  '-->',
  '--',
  '&amp;',
  '&',
  '?>',
  'ä',
  '€',
  '😀',
  '\r\n',
  '"',
  ' ',
)
const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(''))
const { tree } = fc.letrec<{ tree: Node }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ kind: fc.constant('text' as const), text }),
    fc.record({
      kind: fc.constantFrom('test', 'test', 'suite', 'other', 'failure', 'error', 'skipped' as const),
      children: fc.array(tie('tree'), { maxLength: 5 }),
    }),
  ),
}))

function escaped(of: string): string {
  return of
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&#x3e;')
    .replaceAll('"', '&quot;')
}

/** One of several encodings of a text. */
function written(of: string): string {
  switch (of.length % 4) {
    case 0:
      return escaped(of)
    case 1:
      return `<![CDATA[${of.replaceAll(']]>', ']]]]><![CDATA[>')}]]>`
    case 2:
      return `<!--${of.replaceAll('-', '_')}-->`
    default:
      return `<?pi ${of.replaceAll('?>', '')}?>`
  }
}

function write(node: Node): string {
  if (node.kind === 'text') return written(node.text)
  const name = node.kind in names ? names[node.kind as keyof typeof names] : node.kind
  const inside = node.children.map(write).join('')
  return inside === ''
    ? `<${name}/>`
    : `<${name} message="${escaped(inside)}" tests='7' >${inside}</${name}\n>`
}

function count(node: Node, counts: Counts): void {
  if (node.kind === 'text') return
  for (const child of node.children) count(child, counts)
  if (node.kind !== 'test') return
  const has = (...kinds: string[]): boolean => node.children.some(({ kind }) => kinds.includes(kind))
  if (has('failure', 'error')) counts.failed++
  else if (has('skipped')) counts.skipped++
  else counts.passed++
}

function read(content: Uint8Array): unknown {
  const steps = createReportReader().count(content)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

test(`counts reports like their trees and rejects truncated ones (FORKSPACE_SEED=${seed})`, () => {
  const property = fc.property(fc.array(tree, { maxLength: 8 }), fc.nat(), (children, cut) => {
    const root: Node = { kind: 'suite', children }
    const counts: Counts = { passed: 0, failed: 0, skipped: 0 }
    count(root, counts)
    const content = Buffer.from(write(root))
    expect(read(content)).toEqual(counts)
    const refused = expect.objectContaining({ reason: 'INVALID_ARGUMENT' }) as Error
    expect(() => read(content.subarray(0, cut % content.length))).toThrow(refused)
    const end = `</testsuite\n>`
    // A second end, or a second root.
    expect(() => read(Buffer.concat([content, Buffer.from(cut % 2 === 0 ? end : '<a/>')]))).toThrow(refused)
  })
  fc.assert(property, { seed, numRuns: runs(500) })
})

test(`rejects invalid reports with the documented error only (FORKSPACE_SEED=${seed})`, () => {
  const piece = fc.constantFrom(
    '<testsuite>',
    '</testsuite>',
    '<testcase ',
    '/>',
    '>',
    '<!DOCTYPE a [',
    '<!ENTITY a "b">',
    '<![CDATA[',
    ']]>',
    '<!--',
    '-->',
    '<?xml version="1.0"?>',
    '&a;',
    '&lt;',
    'a="1"',
    '\0',
    '\ufeff',
    '<',
    '?>',
    'x',
  )
  const property = fc.property(
    fc.array(
      fc.oneof(
        piece.map((part) => Buffer.from(part)),
        fc.uint8Array({ maxLength: 3 }),
      ),
      { maxLength: 12 },
    ),
    (pieces) => {
      expect(['read', 'INVALID_ARGUMENT']).toContain(outcome(Buffer.concat(pieces)))
    },
  )
  fc.assert(property, { seed, numRuns: runs(5000) })
})
