import { TextDecoder } from 'node:util'
import type { ReportReader, Steps, TestCounts } from '../../engine/ports.js'
import { junitLimits } from './limits.js'
import { refused, ReportDocument } from './report-document.js'

/**
 * Reads reports in the XML of JUnit. What counts are the `testcase` elements, wherever they stand: one with a
 * `failure` or `error` child has failed, else one with a `skipped` child was skipped, else it has passed. What
 * attributes say of numbers is not looked at.
 *
 * Strict: the document has to be well-formed and in UTF-8, with or without a byte order mark. Document type
 * declarations are refused, and with them every declared entity.
 */
export function createReportReader(): ReportReader {
  return { count: countTests }
}

function* countTests(content: Uint8Array): Steps<TestCounts> {
  // The parser takes one byte order mark out, no more.
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const document = new ReportDocument()
  for (let at = 0; at < content.byteLength; at += junitLimits.chunkBytes) {
    document.write(decode(decoder, content.subarray(at, at + junitLimits.chunkBytes)))
    yield
  }
  document.write(decode(decoder))
  return document.end()
}

/** Without bytes: what is left of a character at the end. */
function decode(decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined })
  } catch {
    throw refused('must be in UTF-8')
  }
}
