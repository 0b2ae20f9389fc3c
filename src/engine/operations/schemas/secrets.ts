import * as z from 'zod'
import { text } from './kinds.js'
import { defineSchemas } from './operation-schemas.js'

/** A value that shows itself only where it is asked to, so that it gets into no log by accident. */
export interface SecretValue {
  reveal(): string
}

const inSession = { sessionId: text }
const named = { ...inSession, secretName: text }
const scope = z.enum(['SECRET_SCOPE_SESSION'])
const metadata = z.object({ secretName: text, scope })

/** On the wire the value itself. */
const secretValue = z.codec(
  text,
  z.custom<SecretValue>(
    (value) => typeof (value as Partial<SecretValue> | null)?.reveal === 'function',
    'must be a secret',
  ),
  { decode: (value) => ({ reveal: () => value }), encode: (secret) => secret.reveal() },
)

export const secretSchemas = defineSchemas({
  listSecrets: {
    request: z.object({ ...inSession, scope: scope.exactOptional() }),
    response: z.object({ secrets: z.array(metadata) }),
  },
  putSecret: {
    request: z.object({ ...named, secretValue: text, scope: scope.exactOptional() }),
    response: metadata,
  },
  getSecret: { request: z.object(named), response: z.object({ secretName: text, secretValue }) },
  deleteSecret: {
    request: z.object({ ...named, scope: scope.exactOptional() }),
    response: metadata,
  },
})
