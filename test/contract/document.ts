import {
  contentRoutes,
  contentSchemas,
  inBytes,
  operations,
  schemas,
  statusSchema,
  tags,
  type ContentRoute,
  type ContentRouteName,
  type Operation,
  type OperationName,
} from '../../src/engine/contract.js'
import { version } from '../../src/engine/index.js'
import { examples } from './examples.js'
import { defaultHttpLimits } from '../../src/adapters/http/limits.js'
import { reasonsOf, reasonTable, usualReasons } from './errors.js'
import type { OperationExample } from './example.js'
import { Components, type Fields, type JsonSchema } from './schemas.js'
import { introduction, statusNames } from './texts.js'
import { takesBody } from '../../src/adapters/http/operations/operation-io.js'

type Json = Readonly<Record<string, unknown>>

/** Builds the contract from the operations, their schemas and the examples. `npm run generate` writes it to a file. */
export function describeContract(): object {
  return new Description().document()
}

class Description {
  readonly #components = new Components()
  readonly #responses = new Map<string, Json>()
  readonly #status: JsonSchema

  constructor() {
    this.#status = this.#components.of(statusSchema)
    for (const [status, reasons] of usualReasons())
      this.#responses.set(statusNames[status]!, this.#failure(status, reasons))
  }

  document(): object {
    const paths: Record<string, Record<string, Json>> = {}
    for (const [key, operation] of Object.entries<Operation>(operations)) {
      const name = key as OperationName
      const described = this.#operation(name, operation)
      const method = operation.method.toLowerCase()
      ;(paths[operation.path] ??= {})[method] = described
      for (const alias of operation.aliases ?? [])
        (paths[alias] ??= {})[method] = { ...described, operationId: `${name}Alias`, 'x-alias-of': name }
    }
    for (const [key, route] of Object.entries<ContentRoute>(contentRoutes))
      (paths[route.path] ??= {})[route.method.toLowerCase()] = this.#contentRoute(
        key as ContentRouteName,
        route,
      )
    Object.assign(paths, contractPaths())
    this.#components.add('ErrorInfo', errorInfo())
    return {
      openapi: '3.1.0',
      info: {
        title: 'forkspace',
        summary: 'Versioned, isolated workspaces.',
        description: introduction,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
        version,
      },
      servers: [{ url: '/' }],
      security: [{ bearer: [] }],
      tags: Object.entries({ ...tags, ...contractTag }).map(([name, description]) => ({ name, description })),
      paths,
      components: {
        schemas: this.#components.sorted(),
        responses: Object.fromEntries(this.#responses),
        securitySchemes: {
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'A token that the service knows. It identifies a tenant and a principal.',
          },
        },
      },
    }
  }

  #operation(name: OperationName, operation: Operation): Json {
    const request = this.#components.fieldsOf(schemas[name].request)
    const own = examples.filter((example) => example.operation === name)
    const parameters = this.#parameters(operation, request, own)
    return {
      tags: [operation.tag],
      summary: operation.summary,
      description: operation.description,
      operationId: name,
      ...(operation.extension && { 'x-extension': true }),
      ...(operation.event !== undefined && { 'x-event-type': operation.event }),
      ...(parameters.length > 0 && { parameters }),
      ...(takesBody(operation) && { requestBody: this.#body(name, operation, request, own) }),
      responses: { 200: this.#success(name, operation, own), ...this.#failures(name, own) },
    }
  }

  #contentRoute(name: ContentRouteName, route: ContentRoute): Json {
    const { operation, summary, description, content } = route
    const { tag, event }: Operation = operations[operation]
    return {
      tags: [tag],
      summary,
      description,
      operationId: name,
      'x-extension': true,
      ...(event !== undefined && { 'x-event-type': event }),
      parameters: this.#parameters(route, this.#components.fieldsOf(contentSchemas[name]), []),
      ...(content === 'request' && { requestBody: { content: binary } }),
      responses: {
        200:
          content === 'request'
            ? this.#success(operation, operations[operation], [])
            : { description: 'The content.', headers: contentHeaders, content: binary },
        ...this.#failures(operation, []),
      },
    }
  }

  #parameters(
    operation: Pick<Operation, 'path' | 'query'>,
    { properties, required }: Fields,
    own: readonly OperationExample[],
  ): Json[] {
    const inPath = pathParameters(operation.path)
    return [...inPath, ...(operation.query ?? [])].map((name) => {
      const { description, 'x-extension': extension, ...schema } = properties[name]!
      const example = own.find(({ parameters }) => Object.hasOwn(parameters, name))?.parameters[name]
      const isPath = inPath.includes(name)
      return {
        name,
        in: isPath ? 'path' : 'query',
        ...(description !== undefined && { description }),
        ...((isPath || required.includes(name)) && { required: true }),
        ...(extension === true && { 'x-extension': true }),
        schema,
        ...(example !== undefined && { example }),
      }
    })
  }

  #body(name: OperationName, operation: Operation, request: Fields, own: readonly OperationExample[]): Json {
    const elsewhere = [...pathParameters(operation.path), ...(operation.query ?? [])]
    const names = Object.keys(request.properties).filter((field) => !elsewhere.includes(field))
    const required = request.required.filter((field) => names.includes(field))
    const schema = this.#components.add(`${capitalized(name)}Request`, {
      type: 'object',
      properties: Object.fromEntries(names.map((field) => [field, request.properties[field]!])),
      ...(required.length > 0 && { required }),
    })
    const values = own.flatMap(({ name, body }) => (body === undefined ? [] : [[name, body] as const]))
    return {
      description: `At most ${inBytes(defaultHttpLimits.bodyBytes)} by default.`,
      ...(required.length > 0 && { required: true }),
      content: { 'application/json': { schema, ...exampleMap(values) } },
    }
  }

  #success(name: OperationName, operation: Operation, own: readonly OperationExample[]): Json {
    const described = this.#components.of(schemas[name].response)
    const schema =
      '$ref' in described ? described : this.#components.add(`${capitalized(name)}Response`, described)
    const values = own
      .filter(({ status }) => status === 200)
      .map(({ name, response }) => [name, response] as const)
    const content = { schema, ...exampleMap(values) }
    if (operation.stream !== true) return { description: 'Done.', content: { 'application/json': content } }
    return {
      description: 'A stream of lines that stays open. The schema is that of one line.',
      content: { 'application/x-ndjson': content },
    }
  }

  #failures(name: OperationName, own: readonly OperationExample[]): Json {
    const failures: [number, Json][] = []
    for (const [status, reasons] of reasonsOf(name)) {
      const shared = this.#responses.get(statusNames[status]!)
      const values = own
        .filter((example) => example.status === status)
        .map(({ name, response }) => [name, response] as const)
      const isShared = values.length === 0 && String(shared?.['x-reasons']) === String(reasons)
      failures.push([
        status,
        isShared
          ? { $ref: `#/components/responses/${statusNames[status]!}` }
          : this.#failure(status, reasons, values),
      ])
    }
    return Object.fromEntries(failures)
  }

  #failure(status: number, reasons: readonly string[], values: readonly Example[] = []): Json {
    const header = headersOf[status]
    return {
      description: `Failed: ${reasons.map((reason) => `\`${reason}\``).join(', ')}.`,
      ...(header !== undefined && { headers: header }),
      content: { 'application/json': { schema: this.#status, ...exampleMap(values) } },
      'x-reasons': reasons,
    }
  }
}

type Example = readonly [name: string, value: object]

const text = { type: 'string' }

const headersOf: Readonly<Record<number, Json>> = {
  401: { 'WWW-Authenticate': { schema: text, example: 'Bearer' } },
  429: { 'Retry-After': { description: 'Seconds.', schema: text, example: '1' } },
}

const binary = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }

const contentHeaders = {
  'forkspace-size-bytes': { description: 'The size of the whole file.', schema: text },
}

function exampleMap(values: readonly Example[]): Json {
  if (values.length === 0) return {}
  return {
    examples: Object.fromEntries(
      values.map(([summary, value]) => [summary.replaceAll(/[^\w]+/g, '-'), { summary, value }]),
    ),
  }
}

const contractTag = { Contract: 'The contract of the service.' }

/** The paths of this document, which are the only ones that need no token. */
function contractPaths(): Record<string, Record<string, Json>> {
  const name = 'getContract'
  const described = {
    tags: ['Contract'],
    summary: 'Get this document',
    description: 'The contract of the service, as OpenAPI 3.1. Needs no token.',
    operationId: name,
    security: [],
    responses: {
      200: { description: 'Done.', content: { 'application/json': { schema: { type: 'object' } } } },
      403: { $ref: '#/components/responses/Forbidden' },
    },
  }
  return {
    '/v1/openapi.json': { get: described },
    '/openapi.json': { get: { ...described, operationId: `${name}Alias`, 'x-alias-of': name } },
  }
}

function errorInfo(): JsonSchema {
  const properties = {
    '@type': { type: 'string', const: 'type.googleapis.com/google.rpc.ErrorInfo' },
    reason: {
      type: 'string',
      description: 'The specific cause; `x-reasons` lists all reasons.',
      'x-reasons': reasonTable(),
    },
    domain: { type: 'string', const: 'forkspace' },
    metadata: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'Facts by name, such as `field`, `limit`, `path`, `expectedHash`, `actualHash`.',
    },
  }
  return { type: 'object', properties, required: Object.keys(properties) }
}

function pathParameters(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
}

function capitalized(name: string): string {
  return name[0]!.toUpperCase() + name.slice(1)
}
