import * as z from 'zod'
import { anyObject, integer, text } from './kinds.js'

/** What a failed request gives, and an item of a stream that fails. */
export const statusSchema = z.object({
  /** A standard RPC status code. */
  code: integer,
  message: text,
  /** At most one, of the type `google.rpc.ErrorInfo`. */
  details: z.array(anyObject),
})
