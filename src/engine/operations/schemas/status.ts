import * as z from 'zod'
import { anyObject, integer, named, text } from './wire-types.js'

/** The body of a failed request, and the last item of a failed stream. */
export const statusSchema = named(
  'Status',
  z
    .object({
      code: integer.describe('A standard RPC status code. It shows how the client can react.'),
      message: text.describe('For people. The text may change.'),
      details: z
        .array(named('ErrorInfo', anyObject))
        .describe('At most one entry, of type `google.rpc.ErrorInfo`.'),
    })
    .describe('The body of every failed response.'),
)
