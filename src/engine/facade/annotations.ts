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

/** Notes on files, for review. They outlive changes of the file and restores; forks start without any. */
export class SessionAnnotations {
  readonly #access: SessionAccess
  readonly #service: Annotations

  /** @internal */
  constructor(access: SessionAccess, service: Annotations) {
    this.#access = access
    this.#service = service
  }

  /**
   * Adds a note on a line, or with line 0 on a whole file.
   *
   * @throws {EngineError} HASH_MISMATCH when the content is not the one that the reviewer saw.
   * @throws {EngineError} PATH_NOT_FOUND when the path does not exist.
   * @throws {EngineError} IS_A_DIRECTORY when the path is a directory.
   * @throws {EngineError} NOT_A_DIRECTORY when a parent in the path is a file.
   * @throws {EngineError} TOO_LARGE when the comment is over 65,536 bytes.
   * @throws {EngineError} QUOTA when the session would have over 10,000 annotations, or 16 MiB of comments.
   *
   * @example
   * const expectedContentHash = await session.files.contentHash('/src/a.ts')
   * await session.annotations.add({ filePath: '/src/a.ts', lineNumber: 3, expectedContentHash, comment: 'why?' })
   */
  async add(request: AnnotationAddRequest): Promise<{
    /** The new annotation. */
    annotation: Annotation
  }> {
    const annotation = parseAnnotation(request)
    return this.#access.run('addAnnotation', (live) => this.#service.add(this.#access.core, live, annotation))
  }

  /**
   * The annotations of one path, or of the whole session.
   *
   * @example
   * const { annotations } = await session.annotations.list({ filePath: '/src/a.ts' })
   */
  async list(
    request: {
      /** Absolute path in the session, such as `/src/a.ts`; '' or absent: all paths. */
      readonly filePath?: string
    } = {},
  ): Promise<{
    /** In order of creation. */
    annotations: Annotation[]
  }> {
    const filePath = parseAnnotationList(request)
    return this.#access.look('listAnnotations', (live) =>
      this.#service.list(this.#access.core, live, filePath),
    )
  }

  /**
   * Resolves an annotation, or opens it again. Setting its current status changes nothing.
   *
   * @throws {EngineError} ANNOTATION_NOT_FOUND when the session has no annotation with this id.
   *
   * @example
   * const { annotations } = await session.annotations.list()
   * for (const { id } of annotations) await session.annotations.setStatus({ annotationId: id, newStatus: AnnotationStatus.RESOLVED })
   */
  async setStatus(request: AnnotationStatusRequest): Promise<{
    /** The annotation with its new status. */
    annotation: Annotation
  }> {
    const change = parseAnnotationStatus(request)
    return this.#access.run('updateAnnotationStatus', (live) =>
      this.#service.setStatus(this.#access.core, live, change),
    )
  }
}
