/** Compares the operation table and its schemas with the list of routes. */
import { describe, expect, test } from 'vitest'
import {
  operations,
  schemas,
  wireJsonSchema,
  type Operation,
  type OperationName,
} from '../../src/engine/contract.js'
import { describeSchema, readInterface, type JsonSchema } from './interface-text.js'

const table: Readonly<Record<OperationName, Operation>> = operations
const names = Object.keys(operations) as OperationName[]
const routes = readInterface()

const keyOf = ({ method, path }: { method: string; path: string }): string => `${method} ${path}`
const byRoute = new Map(
  names.flatMap((name) =>
    [table[name].path, ...(table[name].aliases ?? [])].map((path) => [
      keyOf({ method: table[name].method, path }),
      name,
    ]),
  ),
)
const describeWire = (schema: Parameters<typeof wireJsonSchema>[0]): string =>
  describeSchema(wireJsonSchema(schema) as JsonSchema)

describe('the routes', () => {
  test('are those of the table, each once', () => {
    expect(routes.filter(({ extension }) => !extension)).toHaveLength(74)
    expect(routes.map(keyOf).toSorted()).toEqual([...byRoute.keys()].toSorted())
    expect(new Set(routes.map(keyOf)).size).toBe(routes.length)
  })

  test('differ in more than the names of their parameters', () => {
    const shapes = routes.map((route) => keyOf(route).replaceAll(/\{\w+\}/g, '{}'))
    expect(new Set(shapes).size).toBe(shapes.length)
  })

  test.each(routes.map((route) => [keyOf(route), route] as const))('%s', (key, route) => {
    const name = byRoute.get(key) as OperationName
    const { query = [], extension = false, stream = false } = table[name]
    expect({ query: query.toSorted(), extension, stream }).toEqual({
      query: route.query.toSorted(),
      extension: route.extension,
      stream: route.stream,
    })
    expect(describeWire(schemas[name].request)).toBe(route.request)
    expect(describeWire(schemas[name].response)).toBe(route.response)
  })
})

describe('the table', () => {
  test('has query fields only in requests without a body', () => {
    const withQuery = names.filter((name) => table[name].query !== undefined)
    expect(withQuery.filter((name) => !['GET', 'DELETE'].includes(table[name].method))).toEqual([])
  })

  test('has a distinct event for each kind of change, and none for reads', () => {
    // Several extensions write a file.
    const events = names.flatMap((name) => (table[name].extension === true ? [] : (table[name].event ?? [])))
    expect(new Set(events).size).toBe(events.length)
    expect(names.filter((name) => table[name].method === 'GET' && table[name].event !== undefined)).toEqual(
      [],
    )
  })
})
