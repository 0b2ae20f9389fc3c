import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { openApiDocument } from '../../src/adapters/http/index.js'

export type JsonSchema = Readonly<Record<string, unknown>>

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required?: boolean
  readonly schema: JsonSchema
  readonly example?: unknown
  readonly 'x-extension'?: boolean
}

export interface Media {
  readonly schema: JsonSchema
  readonly examples?: Readonly<Record<string, { readonly summary: string; readonly value: object }>>
}

export interface DescribedResponse {
  readonly $ref?: string
  readonly description: string
  readonly content: Readonly<Record<string, Media>>
  readonly 'x-reasons'?: readonly string[]
}

export interface DescribedOperation {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly description: string
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: {
    readonly required?: boolean
    readonly content: Readonly<Record<string, Media>>
  }
  readonly responses: Readonly<Record<string, DescribedResponse>>
  readonly security?: readonly object[]
  readonly 'x-extension'?: boolean
  readonly 'x-alias-of'?: string
  readonly 'x-event-type'?: string
}

export interface Contract {
  readonly info: { readonly version: string }
  readonly servers: readonly { readonly url: string }[]
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>
    readonly responses: Readonly<Record<string, DescribedResponse>>
  }
}

export interface DescribedRoute {
  readonly method: string
  readonly path: string
  readonly operation: DescribedOperation
}

export const contract = openApiDocument() as Contract

export const routes: readonly DescribedRoute[] = Object.entries(contract.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
)

const ajv = new Ajv2020({
  strict: true,
  allErrors: true,
  formats: {
    int64: /^(0|[1-9]\d{0,18})$/,
    'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/,
  },
  keywords: ['components', 'x-extension', 'x-reasons'],
})
ajv.addSchema({ $id: 'contract', components: contract.components })

const compiled = new Map<string, ValidateFunction>()

/** The errors of a value against a schema of the contract; empty if the value is valid. */
export function problems(schema: JsonSchema, value: unknown): string[] {
  const key = JSON.stringify(schema)
  let validate = compiled.get(key)
  if (validate === undefined) {
    validate = ajv.compile(JSON.parse(key.replaceAll('"#/components/', '"contract#/components/')) as object)
    compiled.set(key, validate)
  }
  if (validate(value)) return []
  return validate.errors!.map(({ instancePath, message }) => `${instancePath} ${message}`)
}

/** A response of an operation, with a shared response resolved; undefined if the operation has none. */
export function responseOf(operation: DescribedOperation, status: number): DescribedResponse | undefined {
  const answer = operation.responses[status]
  if (answer?.$ref === undefined) return answer
  return contract.components.responses[answer.$ref.slice('#/components/responses/'.length)]
}

/** The schema, or the schema that it refers to. */
export function resolved(schema: JsonSchema): JsonSchema {
  const { $ref } = schema
  if (typeof $ref !== 'string') return schema
  return resolved(contract.components.schemas[$ref.slice('#/components/schemas/'.length)]!)
}

/** The schema of an operation's request body. */
export function bodySchema(operation: DescribedOperation): JsonSchema | undefined {
  return operation.requestBody?.content['application/json']?.schema
}
