import {
  parseAnnotation,
  parseAnnotationList,
  parseAnnotationStatus,
  type AnnotationAddRequest,
  type Annotations,
  type AnnotationStatusRequest,
} from '../services/annotations.js'
import type { Annotation } from '../records/annotation.js'
import type { SessionAccess } from '../session/access/session-access.js'

/** Notes on files, for review. They outlive changes of the file and restores; forks have none of them. */
export class SessionAnnotations {
  readonly #access: SessionAccess
  readonly #service: Annotations

  constructor(access: SessionAccess, service: Annotations) {
    this.#access = access
    this.#service = service
  }

  /**
   * Notes something on a line, or with line 0 on a whole file. HASH_MISMATCH when the file is no longer what
   * the reviewer saw; PATH_NOT_FOUND, IS_A_DIRECTORY; QUOTA for over 10,000 in a session.
   *
   * @example
   * const expectedContentHash = await session.files.contentHash('/src/a.ts')
   * await session.annotations.add({ filePath: '/src/a.ts', lineNumber: 3, expectedContentHash, comment: 'why?' })
   */
  async add(request: AnnotationAddRequest): Promise<{ annotation: Annotation }> {
    const annotation = parseAnnotation(request)
    return this.#access.run('addAnnotation', (live) => this.#service.add(this.#access.core, live, annotation))
  }

  /** Of one path, or of the whole session, in order of creation. */
  async list(request: { readonly filePath?: string } = {}): Promise<{ annotations: Annotation[] }> {
    const filePath = parseAnnotationList(request)
    return this.#access.look('listAnnotations', (live) =>
      this.#service.list(this.#access.core, live, filePath),
    )
  }

  /** Resolves a note, or reopens it; setting its current status changes nothing. ANNOTATION_NOT_FOUND. */
  async setStatus(request: AnnotationStatusRequest): Promise<{ annotation: Annotation }> {
    const change = parseAnnotationStatus(request)
    return this.#access.run('updateAnnotationStatus', (live) =>
      this.#service.setStatus(this.#access.core, live, change),
    )
  }
}
