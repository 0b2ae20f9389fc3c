import { escapeXml } from './xml-text.js'

/** A refusal that is specific to WebDAV. The client sees the status and the message. */
export class DavError extends Error {
  override readonly name = 'DavError'
  readonly status: number
  /** XML of the condition that failed, in the namespace `DAV:` with the prefix `D`. */
  readonly condition: string | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    message: string,
    {
      condition,
      headers = {},
    }: { readonly condition?: string; readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message)
    this.status = status
    this.condition = condition
    this.headers = headers
  }
}

export function badRequest(message: string): DavError {
  return new DavError(400, message)
}

/** The refusal of a change of a path that another client locked. */
export function locked(href: string): DavError {
  return new DavError(423, 'another client locked the path: wait until it releases its lock', {
    condition: `<D:lock-token-submitted><D:href>${escapeXml(href)}</D:href></D:lock-token-submitted>`,
  })
}
