import type { Contender } from '../contender.js'
import { agentfs } from './agentfs.js'
import { commands } from './commands.js'
import { forkspace } from './forkspace.js'
import { fsFixture } from './fs-fixture.js'
import { justBash } from './just-bash.js'
import { level } from './level.js'
import { limits } from './limits.js'
import { lmdb } from './lmdb.js'
import { memfs } from './memfs.js'
import { nodeFs } from './node-fs.js'
import { sqlite } from './sqlite.js'
import { zenfs } from './zenfs.js'

/** All contenders. None loads its package before `open`. */
export const contenders: readonly Contender[] = [
  ...limits,
  ...forkspace,
  ...memfs,
  ...justBash,
  ...zenfs,
  agentfs,
  ...sqlite,
  ...lmdb,
  ...level,
  ...nodeFs,
  fsFixture,
  ...commands,
]
