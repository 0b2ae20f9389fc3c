import { SaxesParser } from 'saxes'
import { EngineError, invalid, type TestCounts } from '../../engine/ports.js'
import { junitLimits } from './limits.js'

type Outcome = 'passed' | 'failed' | 'skipped'

/** The outcome of a test, by the name of an element that it contains. */
const outcomes: Readonly<Record<string, Outcome>> = { failure: 'failed', error: 'failed', skipped: 'skipped' }

const roots = ['testsuites', 'testsuite']

/**
 * Parses one report piece by piece. Checks that it is well-formed and within the limits, and counts its
 * tests.
 */
export class ReportDocument {
  readonly #parser = new SaxesParser()
  /** One entry for each open element: the outcome so far for a test, undefined for any other element. */
  readonly #open: (Outcome | undefined)[] = []
  readonly #counts: Record<Outcome, number> = { passed: 0, failed: 0, skipped: 0 }
  #isReport = false
  #elements = 0
  #attributes = 0
  #references = 0
  #length = 0

  constructor() {
    const parser = this.#parser
    parser.on('xmldecl', ({ version, encoding }) => {
      if (version !== '1.0' && version !== '1.1') throw refused('must be XML 1.0 or 1.1')
      if (encoding !== undefined && !/^utf-?8$/i.test(encoding)) throw refused('must be in UTF-8')
    })
    parser.on('doctype', () => {
      throw refused('must not have a document type declaration')
    })
    parser.on('opentagstart', ({ name }) => this.#start(name))
    parser.on('attribute', () => {
      if (++this.#attributes > junitLimits.attributes)
        throw refused(`an element has over ${junitLimits.attributes} attributes`)
    })
    parser.on('closetag', () => {
      const outcome = this.#open.pop()
      if (outcome !== undefined) this.#counts[outcome]++
    })
  }

  write(text: string): void {
    this.#length += text.length
    for (let at = text.indexOf('&'); at >= 0; at = text.indexOf('&', at + 1)) this.#references++
    if (this.#references > junitLimits.references)
      throw refused(`has over ${junitLimits.references} references`)
    this.#parse(() => this.#parser.write(text))
    if (this.#elements === 0) {
      if (this.#length >= junitLimits.prolog)
        throw refused(`has no element among its first ${junitLimits.prolog} characters`)
    } else this.#forgetText()
  }

  end(): TestCounts {
    this.#parse(() => this.#parser.close())
    if (!this.#isReport) throw refused('is not a JUnit report')
    return { ...this.#counts }
  }

  #start(name: string): void {
    if (++this.#elements > junitLimits.elements) throw refused(`has over ${junitLimits.elements} elements`)
    if (this.#open.length === junitLimits.depth)
      throw refused(`is nested over ${junitLimits.depth} levels deep`)
    this.#attributes = 0
    const isTest = name === 'testcase'
    if (isTest || (this.#open.length === 0 && roots.includes(name))) this.#isReport = true
    // A failure overrides the other outcomes, in any order.
    const parent = this.#open.length - 1
    const outcome = Object.hasOwn(outcomes, name) ? outcomes[name] : undefined
    if (outcome !== undefined && this.#open[parent] !== undefined && this.#open[parent] !== 'failed')
      this.#open[parent] = outcome
    this.#open.push(isTest ? 'passed' : undefined)
  }

  #parse(step: () => void): void {
    try {
      step()
    } catch (error) {
      if (error instanceof EngineError) throw error
      const { message } = error as Error
      throw refused(`is not well-formed: ${message.slice(0, junitLimits.message).toWellFormed()}`)
    }
  }

  /**
   * Drops the text, comment or value that the parser has collected so far. None of it is needed, and a string
   * that the parser collects in pieces of one or two characters takes a hundred times its size in memory.
   */
  #forgetText(): void {
    const gathered = this.#parser as unknown as { text: string; readonly entity: string }
    gathered.text = ''
    if (gathered.entity.length > junitLimits.referenceName) throw refused('has a reference without an end')
  }
}

export function refused(message: string): EngineError {
  return invalid('reportContent', message)
}
