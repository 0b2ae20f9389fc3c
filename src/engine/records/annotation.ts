import { isCount, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

/** The values of an annotation's status. */
export const AnnotationStatus = {
  /** The comment still needs an answer. A new annotation has this status. */
  OPEN: 'ANNOTATION_STATUS_OPEN',
  /** A reviewer settled the comment with `session.annotations.setStatus`, which can also reopen it. */
  RESOLVED: 'ANNOTATION_STATUS_RESOLVED',
} as const
/** One of the values of {@link AnnotationStatus}. */
export type AnnotationStatus = (typeof AnnotationStatus)[keyof typeof AnnotationStatus]

/** A reviewer's comment on a file, with the hash of the content that the reviewer saw. */
export interface Annotation {
  /** The id of the annotation. The ids of a session sort in order of creation. */
  readonly id: string
  /** The id of the session. */
  readonly sessionId: string
  /** Absolute path of the file in the session, such as `/src/a.ts`. A later rename does not change it. */
  readonly filePath: string
  /** The line, from 1; 0 for a comment on the whole file. */
  readonly lineNumber: number
  /** `sha256:<hex>` of the file's content when the annotation was added. The file may have changed since. */
  readonly contentHash: string
  /** The text of the comment; '' if the request had none. */
  readonly comment: string
  /** The principal that added the annotation. */
  readonly reviewerId: string
  /** Whether the comment is open or resolved. */
  readonly status: AnnotationStatus
  /** RFC 3339 time in UTC. */
  readonly createdAt: string
}

export const annotationKind = new RecordKind<Annotation>({
  name: 'annotation',
  prefix: keyPrefixes.annotation,
  scope: 'session',
  bundle: { text: 'annotations' },
  checks: {
    id: isText,
    sessionId: isText,
    filePath: isText,
    lineNumber: isCount,
    contentHash: isText,
    comment: isText,
    reviewerId: isText,
    status: isOneOf(AnnotationStatus),
    createdAt: isText,
  },
})
