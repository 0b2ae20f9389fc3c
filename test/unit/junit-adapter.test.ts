import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { createReportReader } from '../../src/adapters/junit/index.js'
import { junitLimits } from '../../src/adapters/junit/limits.js'
import { limits } from '../../src/index.js'
import { compileSource } from '../support/compile-source.js'
import { isLong, seed, stepOf } from '../support/seed.js'

const bytes = limits.reportBytes

function count(content: string | Uint8Array): object {
  const steps = createReportReader().count(typeof content === 'string' ? Buffer.from(content) : content)
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

const counts = (passed: number, failed = 0, skipped = 0): object => ({ passed, failed, skipped })
const suite = (inside: string): string => `<testsuite>${inside}</testsuite>`
const refused = expect.objectContaining({
  name: 'EngineError',
  reason: 'INVALID_ARGUMENT',
  details: { field: 'reportContent' },
}) as Error

describe('counts the tests of a report', () => {
  test.each<[what: string, content: string | Uint8Array, expected: object]>([
    [
      'independent of its attributes',
      '<testsuites tests="9" failures="9"><testsuite tests="7" errors="7"><testcase/></testsuite></testsuites>',
      counts(1),
    ],
    [
      'of every kind',
      suite(
        '<testcase><failure/></testcase><testcase><error>x</error></testcase><testcase><skipped/></testcase><testcase/>',
      ),
      counts(1, 2, 1),
    ],
    [
      'with a failure that takes precedence',
      suite(
        '<testcase><skipped/><failure/></testcase><testcase><error/><skipped/></testcase><testcase><failure/><failure/></testcase>',
      ),
      counts(0, 3),
    ],
    [
      'by direct children only',
      suite(
        '<failure/><skipped/><testcase><properties><failure/></properties><system-out><error/></system-out></testcase>',
      ),
      counts(1),
    ],
    [
      'in suites inside suites',
      suite(suite(suite('<testcase/>') + suite('<testcase><failure/></testcase>')) + '<testcase/>'),
      counts(2, 1),
    ],
    ['nested, each separately', suite('<testcase><testcase><failure/></testcase></testcase>'), counts(1, 1)],
    [
      'not by similar names',
      suite('<Testcase/><testcases/><testcase><Failure/><rerunFailure/></testcase>'),
      counts(1),
    ],
    [
      'not by names of object properties',
      suite('<testcase><toString/><__proto__/><constructor/></testcase>'),
      counts(1),
    ],
    [
      'not in text, comments, instructions and attributes',
      suite(
        '<testcase a="&lt;failure/&gt;"><![CDATA[<failure/></testcase><testcase>]]><!--<failure/>--><?x <failure/>?>&lt;failure/&gt;</testcase>',
      ),
      counts(1),
    ],
    [
      'with CDATA that contains brackets',
      suite('<testcase><![CDATA[]]]]><![CDATA[>]]]]]]><failure/></testcase>'),
      counts(0, 1),
    ],
    ['without any', '<testsuites/>', counts(0)],
    [
      'with a byte order mark',
      `\ufeff<?xml version="1.0" encoding="UTF-8"?>${suite('<testcase/>')}`,
      counts(1),
    ],
    [
      'with a declaration',
      `<?xml version="1.0" encoding='utf-8' standalone="yes"?>\r\n${suite('<testcase/>')}\r`,
      counts(1),
    ],
    ['of XML 1.1', `<?xml version="1.1"?>${suite('<testcase/>')}`, counts(1)],
    [
      'with namespaces',
      '<testsuite xmlns="urn:x" xmlns:j="urn:y" j:a="1"><testcase/><j:testcase/></testsuite>',
      counts(1),
    ],
    [
      'with characters of all lengths',
      suite('<testcase name="aä€😀">\u{10fffd}&#x1F600;</testcase>'),
      counts(1),
    ],
    ['under another root', '<results><testcase/></results>', counts(1)],
  ])('%s', (_what, content, expected) => {
    expect(count(content)).toEqual(expected)
  })

  test('at any split of the bytes', () => {
    const inside = '<testcase name="ä€😀"><![CDATA[ ]] ]]><failure a="1">&amp;\r\n</failure></testcase>'
    for (let i = 0; i < inside.length * 4; i += stepOf(4)) {
      const filler = 'x'.repeat(junitLimits.chunkBytes - 20 - i)
      expect(count(suite(`<!--${filler}-->${inside}`))).toEqual(counts(0, 1))
    }
  })

  test('in short steps', () => {
    const steps = createReportReader().count(Buffer.from(suite('<testcase/>'.repeat(100_000))))
    let taken = 0
    while (steps.next().done !== true) taken++
    expect(taken).toBe(Math.ceil((100_000 * 11 + 23) / junitLimits.chunkBytes))
  })
})

describe('rejects', () => {
  const utf16 = Buffer.from(suite('<testcase/>'), 'utf16le')
  const entities = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
  test.each<[what: string, content: string | Uint8Array]>([
    ['an empty report', ''],
    ['white space', ' \n'],
    ['text', 'passed'],
    ['JSON', '{"tests":[]}'],
    ['another document', '<html><body/></html>'],
    ['a truncated report', '<testsuite><testcase></testcase>'],
    ['a report truncated in a tag', '<testsuite/><'],
    ['a report truncated in a comment', '<testsuite/><!-- '],
    ['a report truncated in CDATA', '<testsuite><![CDATA[</testsuite>'],
    [
      'a report truncated in a character',
      Buffer.concat([Buffer.from('<testsuite/>'), Buffer.from([0xe2, 0x82])]),
    ],
    ['only a declaration', '<?xml version="1.0"?>'],
    ['two roots', '<testsuite/><testsuite/>'],
    ['text before the root', 'x<testsuite/>'],
    ['text after the root', '<testsuite/>x'],
    ['CDATA after the root', '<testsuite/><![CDATA[x]]>'],
    ['CDATA before the root', '<![CDATA[x]]><testsuite/>'],
    ['CDATA that is already closed', suite('<![CDATA[]]>]]>')],
    ['CDATA inside a tag', '<testsuite <![CDATA[a="1"]]>/>'],
    ['the end of CDATA in text', suite(']]>')],
    ['overlapping tags', '<testsuite><testcase></testsuite></testcase>'],
    ['an end tag without a start tag', '<testsuite></testcase></testsuite>'],
    ['the same attribute twice', '<testsuite a="1" a="2"/>'],
    ['an attribute without quotes', '<testsuite a=1/>'],
    ['an attribute without a value', '<testsuite a/>'],
    ['a tag in an attribute', '<testsuite a="<"/>'],
    ['a character that XML does not allow', suite('\u0001')],
    ['a reference to such a character', suite('&#0;')],
    ['a bare ampersand', suite('a & b')],
    ['an undeclared entity', suite('&nbsp;')],
    ['an entity named like an object property', suite('&__proto__;')],
    ['a document type', `<!DOCTYPE testsuite>${suite('<testcase/>')}`],
    ['an external document type', `<!DOCTYPE a SYSTEM "file:///etc/passwd">${suite('<testcase/>')}`],
    ['declared entities', `${entities}${suite('<testcase>&b;</testcase>')}`],
    ['a document type after the root', '<testsuite/><!DOCTYPE a>'],
    ['a document type inside the root', suite('<!DOCTYPE a>')],
    ['a declaration inside', suite('<?xml version="1.0"?>')],
    ['a declaration after white space', ` <?xml version="1.0"?><testsuite/>`],
    ['another version', '<?xml version="2.0"?><testsuite/>'],
    ['a future version', '<?xml version="1.7"?><testsuite/>'],
    ['a declaration of UTF-16', '<?xml version="1.0" encoding="UTF-16"?><testsuite/>'],
    ['a declaration of Latin 1', '<?xml version="1.0" encoding="ISO-8859-1"?><testsuite/>'],
    ['two byte order marks', '\ufeff\ufeff<testsuite/>'],
    ['a byte order mark inside the text', '<testsuite/>\ufeff'],
    ['UTF-16', utf16],
    ['UTF-16 with its mark', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16])],
    ['UTF-16 with swapped bytes', Buffer.concat([Buffer.from([0xfe, 0xff]), Buffer.from(utf16).swap16()])],
    ['UTF-32', Buffer.from('<\0\0\0t\0\0\0')],
    ['Latin 1', Buffer.from(suite('ä'), 'latin1')],
    ['an overlong form', Buffer.concat([Buffer.from('<testsuite>'), Buffer.from([0xc0, 0xbc])])],
    ['a surrogate in UTF-8', Buffer.concat([Buffer.from('<testsuite>'), Buffer.from([0xed, 0xa0, 0x80])])],
    ['zeros', Buffer.alloc(1000)],
  ])('%s', (_what, content) => {
    expect(() => count(content)).toThrow(refused)
  })

  test('reports the position in a short error', () => {
    expect(() => count('<testsuite>\n  <testcase></x></testsuite>')).toThrow('2:16: unexpected close tag')
    const name = 'x'.repeat(1_000_000)
    const error = catching(() => count(`<testsuite><${name}>`))
    expect(error.message.length).toBeLessThan(300)
    expect(catching(() => count(`<testsuite><${'😀'.repeat(1000)}>`)).message.isWellFormed()).toBe(true)
  })

  test.runIf(isLong)('accepts a report at each limit and rejects one above it', () => {
    const { depth, attributes, elements, prolog } = junitLimits
    const nested = (levels: number): string => '<testsuite>'.repeat(levels) + '</testsuite>'.repeat(levels)
    const attributed = (many: number): string =>
      `<testsuite ${Array.from({ length: many }, (_, i) => `a${i}=""`).join(' ')}/>`
    const many = (amount: number): string => suite('<a/>'.repeat(amount - 1))
    const late = (characters: number): string => `<!--${' '.repeat(characters - 7)}--><testsuite/>`
    for (const [make, limit] of [
      [nested, depth],
      [attributed, attributes],
      [many, elements],
    ] as const) {
      expect(count(make(limit))).toEqual(counts(0))
      expect(() => count(make(limit + 1))).toThrow(refused)
    }
    expect(count(late(prolog - 12))).toEqual(counts(0))
    expect(() => count(late(prolog + 1))).toThrow(refused)
    expect(() => count(suite(`&${'x'.repeat(2 * junitLimits.chunkBytes)};`))).toThrow(refused)
  })
})

/** Reports close to the maximum size. `npm test` reads some of them. */
const hostile: Record<string, string> = {
  'three million references': `suite('&lt;'.repeat(3_000_000))`,
  'three million references in a value': `'<testsuite a="' + '&lt;'.repeat(3_000_000) + '"/>'`,
  'three million unknown entities': `suite('&a;'.repeat(3_000_000))`,
  'millions of elements': `suite('<a/>'.repeat(bytes / 4 - 6))`,
  'millions of levels': `'<a>'.repeat(bytes / 3)`,
  'millions of attributes': `'<testsuite ' + Array.from({ length: 1_000_000 }, (_, i) => 'a' + i + '=""').join(' ') + '/>'`,
  'an endless name': `'<' + 'x'.repeat(bytes - 3) + '/>'`,
  'an endless reference': `suite('&' + 'x'.repeat(bytes - 30) + ';')`,
  'an endless reference of line ends': `suite('&' + '\\r'.repeat(bytes - 30) + ';')`,
  'an endless number': `suite('&#' + '0'.repeat(bytes - 40) + '65;')`,
  'a document type of entities': `'<!DOCTYPE a [' + '<!ENTITY a "b">'.repeat(1_000_000) + ']><testsuite/>'`,
  'a document type of brackets': `'<!DOCTYPE a [' + '""'.repeat(bytes / 2 - 30) + ']><testsuite/>'`,
}
const harmless: Record<string, string> = {
  'CDATA of brackets': `suite('<![CDATA[' + ']'.repeat(bytes - 40) + ']]>')`,
  'CDATA of line ends': `suite('<![CDATA[' + '\\r'.repeat(bytes - 40) + ']]>')`,
  'a comment of hyphens': `suite('<!--' + '- '.repeat(bytes / 2 - 20) + '-->')`,
  'an instruction of marks': `suite('<?x ' + '?'.repeat(bytes - 40) + '?>')`,
  'a value of line ends': `'<testsuite a="' + '\\n'.repeat(bytes - 40) + '"/>'`,
  'text of line ends': `suite('\\r'.repeat(bytes - 40))`,
}

/** Every third entry in `npm test`, from a start that the seed chooses. */
function sample(from: Record<string, string>): [string, string][] {
  const step = stepOf(3)
  return Object.entries(from).filter((_, index) => (index + seed) % step === 0)
}

describe.runIf(isLong)('in a process with little memory', () => {
  test('every report of the maximum size can be read', { timeout: 240_000 }, async () => {
    const compiled = await compileSource()
    const file = join(compiled.directory, 'run.mjs')
    const entries = (from: Record<string, string>): string =>
      sample(from)
        .map(([name, code]) => `${JSON.stringify(name)}: () => ${code},`)
        .join('\n')
    await writeFile(
      file,
      `import { createReportReader } from ${JSON.stringify(compiled.url('adapters/junit/index.js'))}
      const bytes = ${bytes}
      const suite = (inside) => '<testsuite>' + inside + '</testsuite>'
      const all = { ${entries(hostile)} ${entries(harmless)} }
      const results = {}
      for (const [name, make] of Object.entries(all)) {
        const content = Buffer.from(make())
        if (content.length > bytes) throw new Error(name)
        const steps = createReportReader().count(content)
        try { while (!steps.next().done); results[name] = 'read' } catch (error) { results[name] = error.reason }
      }
      console.log(JSON.stringify(results))`,
    )
    const { stdout } = await promisify(execFile)(process.execPath, ['--max-old-space-size=192', file])
    const expected = (from: Record<string, string>, result: string): [string, string][] =>
      sample(from).map(([name]) => [name, result])
    expect(JSON.parse(stdout)).toEqual(
      Object.fromEntries([...expected(hostile, 'INVALID_ARGUMENT'), ...expected(harmless, 'read')]),
    )
  })
})

function catching(act: () => unknown): Error {
  try {
    act()
  } catch (error) {
    return error as Error
  }
  throw new Error('nothing was thrown')
}
