import * as z from 'zod'
import { limits } from '../../base/limits.js'
import { inBytes, named, sessionId, text } from './wire-types.js'
import { defineSchemas } from './operation-schemas.js'

/** A value that only `reveal()` returns, so that logs and serializers cannot show it by accident. */
export interface SecretValue {
  reveal(): string
}

const inSession = { sessionId }
const secretName = text.describe(
  `1 to ${limits.secretNameBytes} bytes, without control or format characters, and without leading or trailing white space.`,
)
const ofSecret = { ...inSession, secretName }
const scope = z.enum(['SECRET_SCOPE_SESSION']).meta({ id: 'SecretScope' })
const metadata = named('SecretMetadata', z.object({ secretName: text, scope }))

/** The wire form is the value itself. */
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
    request: z.object({
      ...ofSecret,
      secretValue: text.describe(`At most ${inBytes(limits.secretValueBytes)}.`),
      scope: scope.exactOptional(),
    }),
    response: metadata,
  },
  getSecret: { request: z.object(ofSecret), response: z.object({ secretName: text, secretValue }) },
  deleteSecret: {
    request: z.object({ ...ofSecret, scope: scope.exactOptional() }),
    response: metadata,
  },
})
