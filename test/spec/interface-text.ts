/** Reads `interface.txt`, and converts JSON Schema to the same form for comparison. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Route {
  readonly method: string
  readonly path: string
  readonly extension: boolean
  readonly stream: boolean
  readonly pathParameters: readonly string[]
  readonly query: readonly string[]
  /** Path, query and body. */
  readonly request: string
  readonly response: string
}

interface Field {
  readonly optional: boolean
  readonly extension: boolean
  readonly kind: string
}

/** The parts of a JSON Schema that are read. */
export interface JsonSchema {
  readonly type?: string
  readonly format?: string
  readonly contentEncoding?: string
  readonly enum?: readonly string[]
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: JsonSchema | boolean
  readonly 'x-extension'?: boolean
}

export function readInterface(): Route[] {
  const names = new Map<string, string>()
  const routes: Route[] = []
  for (const block of readBlocks()) {
    const [head, ...parts] = block
    const definition = /^(enum|type) (\w+) = (.*)$/.exec(head!)
    if (definition !== null) {
      const [, what, name, text] = definition
      if (what === 'type') names.set(name!, new Parser(text!, names).kind())
      else names.set(name!, renderEnum(text!.split(/\s+/).map((value) => value.replace(/^\+/, ''))))
    } else routes.push(readRoute(head!, parts, names))
  }
  return routes
}

/** The same form of a schema, which must be a complete request or response. */
export function describeSchema(schema: JsonSchema): string {
  const { type, format, contentEncoding, properties, additionalProperties } = schema
  if (schema.enum !== undefined) return renderEnum(schema.enum)
  if (schema.anyOf !== undefined) return schema.anyOf.map(describeSchema).toSorted().join(' | ')
  if (type === 'array') return `[${describeSchema(schema.items!)}]`
  if (type === 'object') {
    if (properties === undefined)
      return additionalProperties === true
        ? '{any}'
        : `{${describeSchema(additionalProperties as JsonSchema)}}`
    const required = new Set(schema.required)
    const fields = Object.entries(properties).map(([name, property]): [string, Field] => [
      name,
      {
        optional: !required.has(name),
        extension: property['x-extension'] === true,
        kind: describeSchema(property),
      },
    ])
    return renderObject(fields, additionalProperties === false)
  }
  if (type === 'string') {
    if (format === 'int64') return 'int64'
    if (format === 'date-time') return 'time'
    return contentEncoding === 'base64' ? 'bytes' : 'string'
  }
  if (type === undefined) throw new Error(`a schema without a type: ${JSON.stringify(schema)}`)
  return type
}

/** Groups of lines: a definition, or a route with its parts. */
function readBlocks(): string[][] {
  const blocks: string[][] = []
  for (const line of readFileSync(join(import.meta.dirname, 'interface.txt'), 'utf8').split('\n')) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const block = blocks.at(-1)
    if (!line.startsWith(' ')) blocks.push([line])
    else if (/^ {2}(query|body|gives|streams) /.test(line)) block!.push(line.trim())
    else block![block!.length - 1] += ` ${line.trim()}`
  }
  return blocks
}

function readRoute(head: string, parts: readonly string[], names: ReadonlyMap<string, string>): Route {
  const [, plus, method, path] = /^(\+?)([A-Z]+) (\/\S+)$/.exec(head)!
  const pathParameters = [...path!.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
  const fields = pathParameters.map((name): [string, Field] => [
    name,
    { optional: false, extension: false, kind: 'string' },
  ])
  let query: string[] = []
  let response: string | undefined
  let stream = false
  for (const part of parts) {
    const [, what, text] = /^(\w+) (.*)$/.exec(part)!
    const parser = new Parser(text!, names)
    if (what === 'query' || what === 'body') {
      const read = parser.fields()
      if (what === 'query') query = read.map(([name]) => name)
      fields.push(...read)
    } else {
      stream = what === 'streams'
      response = parser.kind()
    }
    parser.end()
  }
  if (response === undefined) throw new Error(`${head}: no response`)
  return {
    method: method!,
    path: path!,
    extension: plus === '+',
    stream,
    pathParameters,
    query,
    request: renderObject(fields),
    response,
  }
}

class Parser {
  readonly #tokens: string[]
  readonly #names: ReadonlyMap<string, string>

  constructor(text: string, names: ReadonlyMap<string, string>) {
    this.#tokens = text.match(/\{!|[{}[\],:?|+]|[^\s{}[\],:?|+]+/g) ?? []
    this.#names = names
  }

  kind(): string {
    const alternatives = [this.#one()]
    while (this.#take('|')) alternatives.push(this.#one())
    return alternatives.toSorted().join(' | ')
  }

  fields(): [string, Field][] {
    const fields: [string, Field][] = []
    do {
      const extension = this.#take('+')
      const name = this.#next()
      const optional = this.#take('?')
      this.#expect(':')
      fields.push([name, { optional, extension, kind: this.kind() }])
    } while (this.#take(','))
    return fields
  }

  end(): void {
    if (this.#tokens.length > 0) throw new Error(`unexpected ${this.#tokens.join(' ')}`)
  }

  #one(): string {
    if (this.#take('[')) {
      const kind = this.kind()
      this.#expect(']')
      return `[${kind}]`
    }
    const closed = this.#take('{!')
    if (closed || this.#take('{')) {
      if (this.#take('}')) return renderObject([], closed)
      if (this.#tokens[1] === '}') {
        const kind = this.#next()
        this.#expect('}')
        return `{${kind}}`
      }
      const fields = this.fields()
      this.#expect('}')
      return renderObject(fields, closed)
    }
    const name = this.#next()
    if (scalars.has(name)) return name === 'timeOrEmpty' ? 'string' : name
    const known = this.#names.get(name)
    if (known === undefined) throw new Error(`unknown kind ${name}`)
    return known
  }

  #next(): string {
    const token = this.#tokens.shift()
    if (token === undefined) throw new Error('unexpected end')
    return token
  }

  #take(token: string): boolean {
    if (this.#tokens[0] !== token) return false
    this.#tokens.shift()
    return true
  }

  #expect(token: string): void {
    const found = this.#next()
    if (found !== token) throw new Error(`expected ${token}, found ${found}`)
  }
}

const scalars = new Set(['string', 'boolean', 'integer', 'number', 'int64', 'bytes', 'time', 'timeOrEmpty'])

function renderObject(fields: readonly (readonly [string, Field])[], closed = false): string {
  const lines = fields.map(
    ([name, { optional, extension, kind }]) =>
      `${extension ? '+' : ''}${name}${optional ? '?' : ''}: ${kind.replaceAll('\n', '\n  ')}`,
  )
  if (lines.length === 0) return closed ? '{!}' : '{}'
  return `${closed ? '{!' : '{'}\n  ${lines.toSorted().join('\n  ')}\n}`
}

function renderEnum(values: readonly string[]): string {
  return values.toSorted().join('/')
}
