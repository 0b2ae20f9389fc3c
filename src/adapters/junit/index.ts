import { TextDecoder } from 'node:util'
import type { ReportReader, Steps, TestCounts } from '../../engine/ports.js'
import { junitLimits } from './limits.js'
import { refused, ReportDocument } from './report-document.js'

/**
 * Reads JUnit XML reports. It counts the `testcase` elements at any depth. A test with a `failure` or `error`
 * child failed. Otherwise a test with a `skipped` child was skipped, and any other test passed. The counts in
 * the attributes of `testsuite` elements are ignored.
 *
 * The reader is strict: the document must be well-formed UTF-8, with or without a byte order mark. A document
 * type declaration is refused, so a report cannot declare entities.
 */
export function createReportReader(): ReportReader {
  return { count: countTests }
}

function* countTests(content: Uint8Array): Steps<TestCounts> {
  // The decoder keeps byte order marks, because the parser itself removes the first one.
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const document = new ReportDocument()
  for (let at = 0; at < content.byteLength; at += junitLimits.chunkBytes) {
    document.write(decode(decoder, content.subarray(at, at + junitLimits.chunkBytes)))
    yield
  }
  document.write(decode(decoder))
  return document.end()
}

/** Decodes the next bytes. Without bytes, it ends the text, which must not end within a character. */
function decode(decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined })
  } catch {
    throw refused('must be in UTF-8')
  }
}
