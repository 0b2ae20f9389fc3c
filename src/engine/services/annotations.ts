import { formatTime } from '../base/environment.js'
import { EngineError, invalid } from '../base/errors.js'
import { parseExpectedHash } from '../base/hash.js'
import { isId } from '../base/ids.js'
import { given, parseText, shown, kindOf } from '../base/input.js'
import { Shape } from '../base/shape.js'
import { jsonBytes } from '../base/json-bytes.js'
import { limits } from '../base/limits.js'
import { parsePath } from '../base/path.js'
import { whenLoaded } from '../base/fault.js'
import { parseTime } from '../base/time.js'
import type { Core } from '../session/core.js'
import { eventTypes } from '../records/event.js'
import { checkGuard } from '../session/edits/guards.js'
import type { LiveSession } from '../session/table/live.js'
import { findFile } from '../session/reads/lookup.js'
import type { RecordChanges } from '../session/journal/journal.js'
import { roughly, SessionIndex } from '../session/table/session-index.js'
import { mutate, record, unchanged } from '../session/mutation-queue.js'
import { keys } from '../storage/keys.js'
import { asInteger, asObject, asText, checked, damaged } from './bundles/bundle-checks.js'
import { withoutSession, type BundleFacts } from './bundles/bundle-facts.js'
import { checkQuota } from './quota.js'
import { type Annotation, annotationKind, AnnotationStatus } from '../records/annotation.js'

/** The request of `session.annotations.add`. */
export interface AnnotationAddRequest {
  /** Absolute path of the file in the session, such as `/src/a.ts`. */
  readonly filePath: string
  /** The line, from 1; it may be beyond the end of the file. 0, the default, means the whole file. */
  readonly lineNumber?: number
  /** `sha256:<hex>` of the content that the reviewer saw. The file must still have this content. */
  readonly expectedContentHash: string
  /** The text of the comment, at most 65,536 bytes; '' by default. */
  readonly comment?: string
}

interface AnnotationIndex {
  readonly byId: Map<string, Annotation>
  /** The newest id. Ids sort in order of creation. */
  newest: string | undefined
  bytes: number
}

/** Comments on files. They stay when the file changes. A fork starts without annotations. */
export class Annotations {
  readonly #indexes = new SessionIndex<AnnotationIndex>(
    keys.annotations,
    () => ({ byId: new Map(), newest: undefined, bytes: 0 }),
    (index, json, _core, key) => put(index, annotationKind.parse(json, key)),
    { weigh: ({ byId, bytes }) => byId.size * roughly.record + bytes },
  )

  add(
    core: Core,
    live: LiveSession,
    request: Required<AnnotationAddRequest>,
  ): Promise<{ annotation: Annotation }> {
    const { filePath, lineNumber, expectedContentHash, comment } = request
    return mutate(core, live, () => {
      const index = this.#indexes.get(core, live)
      checkGuard(core, filePath, findFile(live, filePath), expectedContentHash)
      checkQuota('annotations', index.byId.size + 1, limits.annotations)
      checkQuota('bytes of comments', index.bytes + jsonBytes(comment), limits.annotationBytes)
      const annotation: Annotation = {
        id: core.ids.newId(index.newest),
        sessionId: live.id,
        filePath,
        lineNumber,
        contentHash: expectedContentHash,
        comment,
        reviewerId: core.principal,
        status: AnnotationStatus.OPEN,
        createdAt: formatTime(core.environment.wallClockMs()),
      }
      return this.#store(core, live, annotation, {
        type: eventTypes.addAnnotation,
        details: { filePath, annotationId: annotation.id },
      })
    })
  }

  /** A bundle includes all annotations. */
  readonly facts: BundleFacts = {
    name: 'annotations',
    action: 'listAnnotations',
    importAction: 'addAnnotation',
    maxCount: limits.annotations,
    maxBytes: limits.annotationBytes,
    bytesOf: (record) => jsonBytes((record as Annotation).comment),
    isImported: true,
    list: async (core, live) => {
      const { annotations } = await this.list(core, live, '')
      return annotations.map(withoutSession)
    },
    revive: (value, sessionId) => {
      const record = reviveAnnotation(value, sessionId)
      return { id: record.id, key: keys.annotation(sessionId, record.id), record }
    },
    adopt: (core, live, facts) => {
      const index = this.#indexes.get(core, live)
      for (const { record: one } of facts) put(index, one as Annotation)
    },
  }

  /** Lists annotations in order of creation. With '' as the path, lists all annotations of the session. */
  async list(core: Core, live: LiveSession, filePath: string): Promise<{ annotations: Annotation[] }> {
    const { byId } = await whenLoaded(() => this.#indexes.get(core, live))
    const annotations: Annotation[] = []
    for (const one of byId.values())
      if (filePath === '' || one.filePath === filePath) annotations.push({ ...one })
    return { annotations }
  }

  setStatus(
    core: Core,
    live: LiveSession,
    { annotationId, newStatus }: AnnotationStatusRequest,
  ): Promise<{ annotation: Annotation }> {
    return mutate(core, live, () => {
      const annotation = this.#indexes.get(core, live).byId.get(annotationId)
      if (annotation === undefined) {
        throw new EngineError(
          'ANNOTATION_NOT_FOUND',
          `the session has no annotation ${given(annotationId)}`,
          {
            annotationId: shown(annotationId),
          },
        )
      }
      if (annotation.status === newStatus)
        return unchanged(core, live).then(() => ({ annotation: { ...annotation } }))
      return this.#store(
        core,
        live,
        { ...annotation, status: newStatus },
        {
          type: eventTypes.updateAnnotationStatus,
          details: { annotationId, newStatus },
        },
      )
    })
  }

  async #store(
    core: Core,
    live: LiveSession,
    annotation: Annotation,
    event: { type: (typeof eventTypes)['addAnnotation' | 'updateAnnotationStatus']; details: object },
  ): Promise<{ annotation: Annotation }> {
    put(this.#indexes.get(core, live), annotation)
    const records = core.journal.kept((): RecordChanges => ({
      put: [[keys.annotation(live.id, annotation.id), annotation]],
    }))
    await record(core, live, { ...event, redo: [], ...records })
    return { annotation: { ...annotation } }
  }
}

/** The request of `session.annotations.setStatus`. */
export interface AnnotationStatusRequest {
  /** The id of the annotation. */
  readonly annotationId: string
  /** The status to set. The current status changes nothing. */
  readonly newStatus: AnnotationStatus
}

function put(index: AnnotationIndex, annotation: Annotation): void {
  if (!index.byId.has(annotation.id)) {
    index.bytes += jsonBytes(annotation.comment)
    index.newest = annotation.id
  }
  index.byId.set(annotation.id, annotation)
}

function reviveAnnotation(value: unknown, sessionId: string): Annotation {
  const { id, filePath, lineNumber, contentHash, comment, reviewerId, status, createdAt } = asObject(value)
  if (!isId(id)) throw damaged('an annotation has no id')
  const known = Object.values(AnnotationStatus).find((one) => one === status)
  if (known === undefined) throw damaged('an annotation has no status')
  return checked(() => {
    const { expectedContentHash, ...parsed } = parseAnnotation({
      filePath: filePath as string,
      lineNumber: asInteger(lineNumber, 0),
      expectedContentHash: contentHash as string,
      comment: comment as string,
    })
    return {
      id,
      sessionId,
      ...parsed,
      contentHash: expectedContentHash,
      reviewerId: asText(reviewerId, limits.labelBytes),
      status: known,
      createdAt: formatTime(parseTime('createdAt', createdAt)),
    }
  })
}

const addShape = new Shape<AnnotationAddRequest>({
  filePath: true,
  lineNumber: true,
  expectedContentHash: true,
  comment: true,
})

const listShape = new Shape<{ readonly filePath?: string }>({ filePath: true })

const statusShape = new Shape<AnnotationStatusRequest>({ annotationId: true, newStatus: true })

export function parseAnnotation(request: AnnotationAddRequest): Required<AnnotationAddRequest> {
  const { filePath, lineNumber = 0, expectedContentHash, comment = '' } = addShape.read(request)
  parsePath(filePath, 'filePath')
  if (!Number.isSafeInteger(lineNumber) || lineNumber < 0)
    throw invalid('lineNumber', `must be a whole number from 0; it is ${given(lineNumber)}`)
  parseExpectedHash(expectedContentHash, 'expectedContentHash')
  return {
    filePath,
    lineNumber,
    expectedContentHash,
    comment: parseText('comment', comment, limits.messageBytes),
  }
}

export function parseAnnotationList(request: { readonly filePath?: string }): string {
  const { filePath = '' } = listShape.read(request)
  if (filePath !== '') parsePath(filePath, 'filePath')
  return filePath
}

export function parseAnnotationStatus(request: AnnotationStatusRequest): AnnotationStatusRequest {
  const { annotationId, newStatus } = statusShape.read(request)
  if (typeof annotationId !== 'string')
    throw invalid('annotationId', `must be a string; it is ${kindOf(annotationId)}`)
  if (!Object.values(AnnotationStatus).includes(newStatus))
    throw invalid(
      'newStatus',
      `must be one of ${Object.values(AnnotationStatus).join(', ')}; it is ${given(newStatus)}`,
    )
  return { annotationId, newStatus }
}
