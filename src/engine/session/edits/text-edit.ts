import { EngineError, invalid } from '../../base/errors.js'
import { given, parseFlag, parseText, readList } from '../../base/input.js'
import { limits } from '../../base/limits.js'
import { Shape, type CopyOf } from '../../base/shape.js'
import { encodeText } from '../../text/byte-text.js'
import { editHunks, type EditHunk } from '../../text/edit-hunks.js'
import type { LineRange } from '../../text/changed-ranges.js'
import { editText, type ByteEdit, type EditedText, type Whitespace } from '../../text/edit-text.js'
import { eventTypes } from '../../records/event.js'
import type { Core } from '../core.js'
import { lookInOrder, mutate, record } from '../mutation-queue.js'
import { findFile } from '../reads/lookup.js'
import type { LiveSession } from '../table/live.js'
import { ComputedText, type NewText } from './computed-text.js'
import { parseContextLines } from '../search/search-input.js'
import { checkGuard, guardNames, type HashGuard } from './guards.js'
import type { Plan } from './plan.js'
import { planWrite } from './writes.js'

/** A replacement of text in a file. */
export interface TextEdit {
  /** The text to replace: at least one character. It must be in the file exactly once, unless `all` is true. */
  readonly oldText: string
  /** The new text. It is literal: `$&` is two characters. */
  readonly newText: string
  /** true: replaces all matches; false by default. */
  readonly all?: boolean
}

/** The request of `session.text.edit`: a list of edits, or one edit in the request itself. */
export interface TextEditRequest extends HashGuard {
  /** Absolute path of a file in the session, such as `/src/a.ts`. Symlinks are followed. */
  readonly path: string
  /** The edits, in order, at most 1,000. Each sees the result of those before it. Do not combine it with `oldText`. */
  readonly edits?: readonly TextEdit[]
  /** The text to replace, for a single edit. */
  readonly oldText?: string
  /** The new text, for a single edit. */
  readonly newText?: string
  /** Like `all` of {@link TextEdit}, for a single edit. */
  readonly all?: boolean
  /**
   * `'exact'`, the default: the text matches character by character. `'tolerant'`: without an exact match, whole lines
   * match without white space at their ends, or else also without white space at their starts.
   */
  readonly whitespace?: Whitespace
  /** Unchanged lines around each change in `hunks`, from 0 to 100. Absent: the result has no `hunks`. */
  readonly context?: number
  /** true: returns the result, and changes nothing; false by default. */
  readonly dryRun?: boolean
}

/** The result of `session.text.edit`. */
export interface TextEditResult {
  /** The number of replacements of all edits together. */
  readonly replacementCount: number
  /** The changed lines of the new content, in order, at most 1,000 ranges. */
  readonly changedLines: LineRange[]
  /** With `context`: the changed lines and the lines around them, in order, at most 1,000 lines. */
  readonly hunks?: EditHunk[]
  /** `sha256:<hex>` of the new content: the `expectedHash` of the next edit. */
  readonly contentHash: string
  /** The size of the new content, in bytes. */
  readonly sizeBytes: number
}

const requestShape = new Shape<TextEditRequest>({
  path: true,
  edits: true,
  oldText: true,
  newText: true,
  all: true,
  whitespace: true,
  context: true,
  dryRun: true,
  ...guardNames,
})

const editShape = new Shape<TextEdit>({ oldText: true, newText: true, all: true })

/** A request to edit a file, checked and copied. */
export class FileEdit {
  readonly #core: Core
  readonly #path: string
  readonly #expectedHash: string | undefined
  readonly #context: number | undefined
  readonly #dryRun: boolean
  readonly #computed: ComputedText<EditedText>

  constructor(core: Core, request: TextEditRequest) {
    const copy = requestShape.read(request)
    const edits = readEdits(copy)
    const whitespace = parseWhitespace(copy.whitespace)
    this.#core = core
    this.#path = copy.path
    this.#expectedHash = copy.expectedHash
    this.#context = copy.context === undefined ? undefined : parseContextLines('context', copy.context, 0)
    this.#dryRun = parseFlag('dryRun', copy.dryRun, false)
    this.#computed = new ComputedText(core, edits.length, (text) =>
      editText(text, edits, whitespace, this.#path),
    )
  }

  async apply(live: LiveSession): Promise<TextEditResult> {
    if (this.#dryRun) return lookInOrder(live, () => this.#resultOf(this.#edited(live)))
    let edited: NewText<EditedText> | undefined
    await mutate(this.#core, live, () => {
      edited = this.#edited(live)
      return record(this.#core, live, this.#plan(live, edited))
    })
    if (edited === undefined) throw new EngineError('INTERNAL', 'an edit has no result')
    return this.#resultOf(edited)
  }

  #edited(live: LiveSession): NewText<EditedText> {
    const file = findFile(live, this.#path)
    checkGuard(this.#core, this.#path, file, this.#expectedHash)
    return this.#computed.of(file, this.#path)
  }

  #plan(live: LiveSession, { staged, isChanged, result }: NewText<EditedText>): Plan {
    if (!isChanged) return undefined
    const plan = planWrite(this.#core, live, { path: this.#path }, staged)
    if (plan === undefined) return undefined
    const details = { ...plan.details, replacementCount: result.replacementCount }
    return { ...plan, type: eventTypes.editFile, details }
  }

  #resultOf({ staged, contentHash, result }: NewText<EditedText>): TextEditResult {
    const { text, replacementCount, ranges } = result
    return {
      replacementCount,
      changedLines: ranges,
      ...(this.#context !== undefined && { hunks: editHunks(text, ranges, this.#context) }),
      contentHash,
      sizeBytes: staged.size,
    }
  }
}

function readEdits({ edits, oldText, newText, all }: CopyOf<TextEditRequest>): ByteEdit[] {
  if (edits === undefined) {
    if (oldText === undefined) throw invalid('edits', 'pass edits, or oldText and newText')
    return [parseEdit({ oldText, newText: newText as string, all }, '')]
  }
  if (oldText !== undefined || newText !== undefined || all !== undefined)
    throw invalid('edits', 'pass either edits, or oldText and newText, not both')
  const list = readList('edits', edits, limits.textEdits, 'edits')
  if (list.length === 0) throw invalid('edits', 'must have at least one edit; it is empty')
  return list.map((edit, index) => {
    const field = `edits[${index}]`
    return parseEdit(editShape.readPart(edit as TextEdit, field), `${field}.`)
  })
}

function parseEdit(
  { oldText, newText, all }: { oldText: string; newText: string; all?: boolean | undefined },
  prefix: string,
): ByteEdit {
  const before = parseText(`${prefix}oldText`, oldText, limits.editTextBytes)
  if (before === '')
    throw invalid(`${prefix}oldText`, 'must not be empty; use session.files.write to create a file')
  const after = parseText(`${prefix}newText`, newText, limits.editTextBytes)
  return {
    oldText: encodeText(before),
    newText: encodeText(after),
    all: parseFlag(`${prefix}all`, all, false),
  }
}

function parseWhitespace(value: unknown): Whitespace {
  if (value === undefined) return 'exact'
  if (value === 'exact' || value === 'tolerant') return value
  throw invalid('whitespace', `must be "exact" or "tolerant"; it is ${given(value)}`)
}
