import { expect } from 'vitest'
import { findGarbage } from './garbage.js'

/** Requires that the store holds exactly the data that sessions reference; see {@link findGarbage}. */
export async function expectNoGarbage(...args: Parameters<typeof findGarbage>): Promise<void> {
  expect(await findGarbage(...args)).toEqual({ missingContents: [], contents: [], nodes: [], records: [] })
}
