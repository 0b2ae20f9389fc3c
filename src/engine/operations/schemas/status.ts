import * as z from 'zod'
import { anyObject, integer, named, text } from './wire-types.js'

/** What a failed request gives, and an item of a stream that fails. */
export const statusSchema = named(
  'Status',
  z
    .object({
      code: integer.describe('A standard RPC status code: what can be done about it.'),
      message: text.describe('For people; it may change.'),
      details: z
        .array(named('ErrorInfo', anyObject))
        .describe('At most one, of the type `google.rpc.ErrorInfo`.'),
    })
    .describe('What every failed request gives.'),
)
