import { isCount, isOneOf, isText } from '../base/checks.js'
import { keyPrefixes } from '../storage/keys.js'
import { RecordKind } from './record-kind.js'

export const AnnotationStatus = {
  OPEN: 'ANNOTATION_STATUS_OPEN',
  RESOLVED: 'ANNOTATION_STATUS_RESOLVED',
} as const
export type AnnotationStatus = (typeof AnnotationStatus)[keyof typeof AnnotationStatus]

/** A note of a reviewer on a file as it was. */
export interface Annotation {
  readonly id: string
  readonly sessionId: string
  readonly filePath: string
  /** From 1; 0 is the whole file. */
  readonly lineNumber: number
  /** The hash of the file when the note was made; the file may have changed since. */
  readonly contentHash: string
  readonly comment: string
  /** The principal that made it. */
  readonly reviewerId: string
  readonly status: AnnotationStatus
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
