import { fixture } from './fixture.js'
import { fileScenarios } from './files.js'
import { heap } from './heap.js'
import { sessionScenarios } from './sessions.js'
import { treeScenarios } from './trees.js'
import type { Scenario } from './scenario.js'

export const scenarios: readonly Scenario[] = [
  ...fileScenarios,
  ...treeScenarios,
  ...sessionScenarios,
  fixture,
  heap,
]
