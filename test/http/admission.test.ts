/** Counters of what is in use at once, and that each is given back. */
import { describe, expect, test } from 'vitest'
import { Admission } from '../../src/adapters/http/server/admission.js'

describe('an admission', () => {
  test('lets in as much as its limit, and what was given back again', () => {
    const admission = new Admission(10, 'too much')
    admission.take(4)
    admission.take(6)
    expect(() => admission.take(1)).toThrow('too much')
    admission.give(4)
    admission.take(4)
    expect(() => admission.take(1)).toThrow(
      expect.objectContaining({ reason: 'QUOTA', metadata: { limit: '10' } }),
    )
  })

  test('takes nothing of what it refuses', () => {
    const admission = new Admission(10, 'too much')
    expect(() => admission.take(11)).toThrow('too much')
    admission.take(10)
  })
})
