/** The examples of the contract match the behaviour of the operations. */
import { expect, test } from 'vitest'
import { operations } from '../../src/engine/contract.js'
import { examples } from '../contract/examples.js'
import { formatted } from '../support/http-examples.js'
import { recordStory } from '../support/http-story.js'

test('the examples equal the responses of a handler', async () => {
  const recorded = await recordStory(1)
  // With `-u` this writes the file: npm run generate.
  const text = await formatted('examples.json', JSON.stringify(recorded))
  await expect(text).toMatchFileSnapshot('../contract/examples.json')
})

test('the examples do not depend on random values', async () => {
  expect(await recordStory(2)).toEqual(await recordStory(3))
})

test('every operation has an example that succeeds', () => {
  const shown = new Set(examples.filter(({ status }) => status === 200).map(({ operation }) => operation))
  expect([...shown].sort()).toEqual(Object.keys(operations).sort())
})

test('the examples of an operation have unique names', () => {
  const names = examples.map(({ operation, name, status }) => `${operation} ${status} ${name}`)
  expect(names).toEqual([...new Set(names)])
})
