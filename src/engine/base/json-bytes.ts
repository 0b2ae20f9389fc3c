import { Buffer } from 'node:buffer'

/** The bytes of a text in JSON, without its quotes. Escapes make it up to six times as large as the text. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}
