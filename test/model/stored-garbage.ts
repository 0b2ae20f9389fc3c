import { expect } from 'vitest'
import { findGarbage } from './garbage.js'

/** Nothing may be there that sessions do not lead to, and nothing may be missing; see {@link findGarbage}. */
export async function expectNoGarbage(...args: Parameters<typeof findGarbage>): Promise<void> {
  expect(await findGarbage(...args)).toEqual({ missingContents: [], contents: [], nodes: [], records: [] })
}
