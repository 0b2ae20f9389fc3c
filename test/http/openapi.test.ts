/** The contract that a handler publishes. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { validate as parse } from '@readme/openapi-parser'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, test } from 'vitest'
import { examples } from '../contract/examples.js'
import { createHttpHandler, openApiDocument, staticTokens } from '../../src/adapters/http/index.js'
import {
  commonErrors,
  contentRoutes,
  contentSchemas,
  operations,
  schemas,
  type ContentRoute,
  type Operation,
} from '../../src/engine/contract.js'
import { errorRegistry, version } from '../../src/engine/index.js'
import { openTestEngine } from '../../src/testing.js'
import {
  responseOf,
  bodySchema,
  contract,
  problems,
  resolved,
  routes,
  type JsonSchema,
  type Media,
} from '../support/contract-checks.js'
import { describeContract } from '../contract/document.js'
import { formatted } from '../support/http-examples.js'

const root = resolve(import.meta.dirname, '../..')
type SpecData = Exclude<Parameters<Validator['validate']>[0], string>

const readJson = (path: string): unknown => JSON.parse(readFileSync(`${root}/${path}`, 'utf8'))
const copy = (): object => describeContract()
const table = Object.entries<Operation>(operations)
const contents = Object.entries<ContentRoute>(contentRoutes)

describe('the file', () => {
  test('equals the published one', async () => {
    // With `-u` this writes the file: npm run generate.
    await expect(await formatted('openapi.json', JSON.stringify(copy()))).toMatchFileSnapshot(
      '../../src/adapters/http/openapi.json',
    )
  })

  test('is exported', () => {
    const { exports } = readJson('package.json') as { exports: Record<string, unknown> }
    expect(exports['./openapi.json']).toBe('./dist/adapters/http/openapi.json')
  })

  test('has the version of the package', () => {
    expect(readJson('package.json')).toMatchObject({ version })
    expect(contract.info.version).toBe(version)
  })
})

describe('the document', () => {
  test('is valid for the first validator', async () => {
    expect(await new Validator().validate(copy() as SpecData)).toEqual({ valid: true })
  })

  test('is valid for the second validator', async () => {
    expect(await parse(copy() as Parameters<typeof parse>[0])).toMatchObject({ valid: true, warnings: [] })
  })

  test('is invalid with a mistake', async () => {
    const wrong = { ...copy(), paths: { '/a': { get: { responses: { 200: {} } } } } }
    expect(await new Validator().validate(wrong)).toMatchObject({ valid: false })
    expect(await parse(wrong as never)).toMatchObject({ valid: false })
  })

  test('is copied on each call', () => {
    expect(copy()).not.toBe(copy())
    expect(copy()).toEqual(copy())
  })

  test('is served without a token at the prefix of the handler', async () => {
    await using engine = await openTestEngine()
    const handler = createHttpHandler(engine, { authenticate: staticTokens({}), prefix: '/api' })
    for (const path of ['/api/v1/openapi.json', '/api/openapi.json']) {
      const response = await handler.fetch(new Request(`http://localhost${path}`))
      expect(response.headers.get('content-type')).toBe('application/json')
      expect(await response.json()).toEqual(openApiDocument('/api'))
    }
    expect(handler.openapi).toEqual({ ...contract, servers: [{ url: '/api' }] })
    expect(contract.servers).toEqual([{ url: '/' }])
  })

  test('has no dangling references and no unused components', () => {
    const text = JSON.stringify(contract)
    const named = [...text.matchAll(/"\$ref":"#\/components\/(\w+\/\w+)"/g)].map(([, name]) => name!)
    const there = [
      ...Object.keys(contract.components.schemas).map((name) => `schemas/${name}`),
      ...Object.keys(contract.components.responses).map((name) => `responses/${name}`),
    ]
    expect(there.filter((name) => !named.includes(name))).toEqual([])
    expect(named.filter((name) => !there.includes(name))).toEqual([])
  })
})

describe('the routes', () => {
  test('are those of the operation table, and the contract itself', () => {
    const expected = table.flatMap(([name, { method, path, aliases = [] }]) => [
      `${method} ${path} ${name}`,
      ...aliases.map((alias) => `${method} ${alias} ${name}Alias`),
    ])
    const ofContents = contents.map(([name, { method, path }]) => `${method} ${path} ${name}`)
    const contractRoutes = ['GET /v1/openapi.json getContract', 'GET /openapi.json getContractAlias']
    expect(
      routes.map(({ method, path, operation }) => `${method} ${path} ${operation.operationId}`).sort(),
    ).toEqual([...expected, ...ofContents, ...contractRoutes].sort())
  })

  test('of aliases match their operations', () => {
    const aliases = routes.filter(({ operation }) => operation['x-alias-of'] !== undefined)
    expect(aliases.map(({ path }) => path).sort()).toEqual([
      '/openapi.json',
      '/v1/sessions/{sessionId}/health:testResults',
      '/v1/sessions/{sessionId}/rename',
    ])
    for (const { operation } of aliases) {
      const { operationId: _id, 'x-alias-of': name, ...rest } = operation
      const { operationId: _own, ...own } = routes.find(
        ({ operation }) => operation.operationId === name,
      )!.operation
      expect(rest).toEqual(own)
    }
  })

  test('have a known tag, a summary and a description', () => {
    const tags = contract.tags.map(({ name }) => name)
    expect(tags).toEqual([...new Set(tags)])
    for (const { operation } of routes) {
      expect(tags).toContain(operation.tags[0])
      expect(operation.summary).toMatch(/^[A-Z].*[^.]$/)
      expect(operation.description).toMatch(/^[A-Z`].*\.$/)
    }
    expect(tags.filter((tag) => !routes.some(({ operation }) => operation.tags[0] === tag))).toEqual([])
  })

  test('outside the interface are marked as extensions, and so are additional fields of the others', () => {
    const marked = routes.filter(({ operation }) => operation['x-extension'] === true)
    expect(marked.map(({ operation }) => operation.operationId).sort()).toEqual(
      [
        ...table.flatMap(([name, { extension }]) => (extension === true ? [name] : [])),
        ...Object.keys(contentRoutes),
      ].sort(),
    )
    const fields = routes.flatMap(({ operation: { operationId, parameters = [] } }) =>
      parameters.filter((one) => one['x-extension'] === true).map(({ name }) => `${operationId} ${name}`),
    )
    expect(fields).toEqual([
      'listSessions metadata',
      'listCheckpoints metadata',
      'removeDirectory recursive',
      'subscribe topicPatterns',
    ])
    const inBodies = JSON.stringify(contract.components.schemas).split('"x-extension":true').length - 1
    // forkSession.from, the metadata of forkSession, createCheckpoint, Session and Checkpoint, the parent of Session,
    // createSession.files, createDirectory.recursive, write.mode, commit.allowEmpty, and bytesTransferred of a job.
    expect(inBodies).toBe(13)
  })

  test('take every field of their requests in exactly one place', () => {
    for (const { operation } of routes.filter(({ path }) => path.startsWith('/v1/s'))) {
      const name = (operation['x-alias-of'] ?? operation.operationId) as keyof typeof schemas
      const schema = schemas[name]?.request ?? contentSchemas[name as never]
      const fields = Object.keys((schema as unknown as { shape: object }).shape)
      const body = bodySchema(operation)
      const inBody = body === undefined ? [] : Object.keys(resolved(body)['properties'] as object)
      const placed = [...(operation.parameters ?? []).map(({ name }) => name), ...inBody]
      expect(placed.sort(), name).toEqual(fields.sort())
    }
  })
})

describe('the errors', () => {
  test('of an operation are those of the table, by status', () => {
    for (const [name, { errors }] of table) {
      const { operation } = routes.find(({ operation }) => operation.operationId === name)!
      const documented = Object.keys(operation.responses).flatMap(
        (status) => responseOf(operation, Number(status))!['x-reasons'] ?? [],
      )
      expect(documented).toEqual([...new Set(documented)])
      for (const reason of [...errors, ...commonErrors, 'UNAUTHENTICATED'])
        expect(documented, `${name} ${reason}`).toContain(reason)
    }
  })

  test('have the schema Status', () => {
    for (const { operation } of routes) {
      for (const status of Object.keys(operation.responses).filter((status) => status !== '200')) {
        const { content } = responseOf(operation, Number(status))!
        expect(content['application/json']!.schema).toEqual({ $ref: '#/components/schemas/Status' })
      }
    }
  })

  test('all have a code, a status and a meaning', () => {
    const { reason } = contract.components.schemas['ErrorInfo']!['properties'] as Record<string, JsonSchema>
    const meanings = reason!['x-reasons'] as Record<string, { code: number; httpStatus: number }>
    const documented = new Set(JSON.stringify(contract).match(/(?<=Failed: |, )`[A-Z_]+`/g))
    for (const name of documented) expect(meanings).toHaveProperty(name.slice(1, -1))
    expect(meanings['HASH_MISMATCH']).toEqual({
      code: 10,
      httpStatus: 409,
      meaning: errorRegistry.HASH_MISMATCH.meaning,
    })
    expect(meanings['METHOD_NOT_ALLOWED']).toMatchObject({ code: 12, httpStatus: 405 })
    expect(meanings['STORE_FULL']).toMatchObject({ code: 8, httpStatus: 507 })
  })
})

describe('the examples', () => {
  const medias = routes.flatMap(({ operation }) => [
    ...Object.values(operation.requestBody?.content ?? {}),
    ...Object.keys(operation.responses).flatMap((status) =>
      Object.values(responseOf(operation, Number(status))!.content),
    ),
  ])

  test('match their schemas', () => {
    const wrong = medias.flatMap(({ schema, examples = {} }: Media) =>
      Object.values(examples).flatMap(({ summary, value }) =>
        problems(schema, value).map((problem) => `${summary}: ${problem}`),
      ),
    )
    expect(wrong).toEqual([])
  })

  test('of parameters match their schemas', () => {
    const wrong = routes.flatMap(({ operation }) =>
      (operation.parameters ?? [])
        .filter(({ example }) => example !== undefined)
        .flatMap(({ name, schema, example }) => problems(schema, example).map((one) => `${name}: ${one}`)),
    )
    expect(wrong).toEqual([])
  })

  test('of errors have statuses and reasons that the operation declares', () => {
    for (const { operation: name, status, response } of examples.filter(({ status }) => status !== 200)) {
      const { operation } = routes.find(({ operation }) => operation.operationId === name)!
      const [{ reason }] = (response as { readonly details: [{ readonly reason: string }] }).details
      expect(responseOf(operation, status)?.['x-reasons'], `${name} ${reason}`).toContain(reason)
    }
  })

  test('with mistakes are detected', () => {
    expect(problems({ $ref: '#/components/schemas/Session' }, { id: 5 })).not.toEqual([])
    expect(problems({ type: 'string', format: 'int64' }, '-1')).not.toEqual([])
  })
})

test('describes values of types that JSON lacks', () => {
  const { content, contentHash, sizeBytes } = contract.components.schemas['ReadFileResponse']![
    'properties'
  ] as Record<string, JsonSchema>
  expect(content).toEqual({ type: 'string', contentEncoding: 'base64' })
  expect(contentHash).toMatchObject({ type: 'string' })
  expect(sizeBytes).toMatchObject({ type: 'string', format: 'int64' })
  const { status } = contract.components.schemas['Session']!['properties'] as Record<string, JsonSchema>
  expect(resolved(status!)['enum']).toContain('SESSION_STATUS_CONFLICT')
})
