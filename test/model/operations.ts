import fc from 'fast-check'
import { badNames, exoticNames, numberedNames, pageEnds, plainNames } from './names.js'
import type { ContentSpec } from './model-tree.js'

/** A path: an existing entry (by number) or the root, and the part to append. */
export interface PathChoice {
  readonly at: number | undefined
  readonly names: readonly string[]
}

export type GuardChoice = 'none' | 'absent' | 'right' | 'wrong'

/** A change of a session, with paths and guards still to be chosen from the existing entries. */
export type Change =
  | {
      readonly op: 'write' | 'append'
      readonly path: PathChoice
      readonly content: ContentSpec
      readonly mode?: number | undefined
      readonly guard: GuardChoice
    }
  | { readonly op: 'delete'; readonly path: PathChoice; readonly guard: GuardChoice }
  | { readonly op: 'mkdir'; readonly path: PathChoice; readonly mode?: number | undefined }
  | { readonly op: 'rmdir'; readonly path: PathChoice }
  | { readonly op: 'chmod'; readonly path: PathChoice; readonly mode: number }
  | { readonly op: 'rename'; readonly path: PathChoice; readonly to: PathChoice }
  | { readonly op: 'symlink'; readonly path: PathChoice; readonly target: PathChoice | string }
  | { readonly op: 'link'; readonly path: PathChoice; readonly to: PathChoice }
  /** Including everything below it. */
  | { readonly op: 'rm'; readonly path: PathChoice }
  | { readonly op: 'unlink'; readonly path: PathChoice; readonly guard: GuardChoice }
  | { readonly op: 'setXattr'; readonly path: PathChoice; readonly name: string; readonly value: string }
  | { readonly op: 'removeXattr'; readonly path: PathChoice; readonly name: string }
  | { readonly op: 'batch'; readonly parts: readonly (Change & { readonly op: 'write' | 'delete' })[] }
  | { readonly op: 'fill'; readonly path: PathChoice; readonly count: number; readonly ends: boolean }
  | { readonly op: 'clear'; readonly path: PathChoice; readonly from: number; readonly count: number }
  | { readonly op: 'checkpoint'; readonly label?: number | undefined }
  | { readonly op: 'restore'; readonly checkpoint: number }
  | { readonly op: 'drop'; readonly checkpoint: number }

export interface StateChoice {
  readonly session: number
  /** Undefined: the newest state. */
  readonly checkpoint?: number | 'base' | undefined
}

export type Operation =
  | { readonly op: 'change'; readonly session: number; readonly change: Change }
  | {
      readonly op: 'burst'
      readonly changes: readonly { readonly session: number; readonly change: Change }[]
      readonly fork: boolean
      /** Whether a collection runs at the same time. */
      readonly collect: boolean
    }
  | { readonly op: 'fork'; readonly session: number; readonly checkpoint?: number | undefined }
  | { readonly op: 'create'; readonly files: readonly PathChoice[] }
  | { readonly op: 'delete session'; readonly session: number }
  | { readonly op: 'diff'; readonly from: StateChoice; readonly to: StateChoice }
  | { readonly op: 'verify'; readonly session: number; readonly pageSize: number }
  | { readonly op: 'rebuild'; readonly session: number; readonly shuffle: number }
  | { readonly op: 'bundle'; readonly session: number; readonly via: number }
  | { readonly op: 'reopen'; readonly crash: boolean }
  /** With `crashAfter`, the store closes after this many of its commits. */
  | { readonly op: 'collect'; readonly keepRedo: boolean; readonly crashAfter?: number | undefined }

/** Names for directories of several pages. */
export const manyNames = { plain: numberedNames('p', 2100, false), ends: numberedNames('q', 300, true) }

const number = fc.nat(1000)
const modes = fc.constantFrom(0o644, 0o755, 0o600, 0, 0o7777)
const optionalMode = fc.option(modes, { nil: undefined, freq: 4 })

const name = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom(...plainNames) },
  { weight: 4, arbitrary: fc.constantFrom(...exoticNames) },
  { weight: 2, arbitrary: fc.constantFrom(...pageEnds) },
)
const names = fc.oneof(
  { weight: 30, arbitrary: fc.array(name, { minLength: 1, maxLength: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom(...badNames).map((bad) => [bad]) },
)
const path: fc.Arbitrary<PathChoice> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ at: number, names: fc.constant<string[]>([]) }) },
  { weight: 3, arbitrary: fc.record({ at: number, names }) },
  { weight: 4, arbitrary: fc.record({ at: fc.constant(undefined), names }) },
  { weight: 1, arbitrary: fc.constant({ at: undefined, names: [] }) },
)
const existing: fc.Arbitrary<PathChoice> = fc.record({ at: number, names: fc.constant<string[]>([]) })
const vacant: fc.Arbitrary<PathChoice> = fc.record({
  at: fc.option(number, { nil: undefined }),
  names: fc.array(name, { minLength: 1, maxLength: 1 }),
})
const block = 1 << 20
const size = fc.oneof(
  { weight: 6, arbitrary: fc.constant(0) },
  { weight: 60, arbitrary: fc.integer({ min: 1, max: 200 }) },
  { weight: 3, arbitrary: fc.constantFrom(65_536, 65_537) },
  { weight: 2, arbitrary: fc.constantFrom(block - 1, block, block + 1) },
)
const content: fc.Arbitrary<ContentSpec> = fc.record({ size, seed: fc.nat(9) })
const guard = fc.constantFrom<GuardChoice>(
  'none',
  'none',
  'none',
  'none',
  'absent',
  'right',
  'right',
  'wrong',
)
const target = fc.oneof(
  { weight: 4, arbitrary: path },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      'a',
      '../b',
      './c/',
      '..',
      '/',
      '/a/../b',
      '../../..',
      'a/./b',
      '//c',
      'd/..',
      '\u{1f600}',
      'é/a',
    ),
  },
)

const write = fc.record({ op: fc.constant('write' as const), path, content, mode: optionalMode, guard })
const remove = fc.record({ op: fc.constant('delete' as const), path, guard })

const xattrName = fc.constantFrom('user.a', 'user.b', '__proto__', 'é', '\u{1f600}', 'constructor')

const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 24, arbitrary: write },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('append' as const), path, content, guard }) },
  { weight: 10, arbitrary: remove },
  { weight: 8, arbitrary: fc.record({ op: fc.constant('mkdir' as const), path, mode: optionalMode }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('rmdir' as const), path }) },
  { weight: 12, arbitrary: fc.record({ op: fc.constant('rename' as const), path, to: path }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('chmod' as const), path, mode: modes }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('symlink' as const), path, target }) },
  { weight: 14, arbitrary: fc.record({ op: fc.constant('link' as const), path: existing, to: vacant }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('link' as const), path, to: path }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('rm' as const), path: existing }) },
  { weight: 5, arbitrary: fc.record({ op: fc.constant('unlink' as const), path, guard }) },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('setXattr' as const),
      path,
      name: xattrName,
      value: fc.constantFrom('', 'x', 'y', 'é\0'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('removeXattr' as const), path, name: xattrName }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant('batch' as const),
      parts: fc.array(fc.oneof(write, write, remove), { maxLength: 6 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('fill' as const),
      path,
      count: fc.oneof(
        { weight: 4, arbitrary: fc.integer({ min: 1, max: 300 }) },
        fc.constantFrom(1023, 1024, 1025, 2100),
      ),
      ends: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('clear' as const),
      path,
      from: number,
      count: fc.constantFrom(1, 10, 1000, 3000),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('checkpoint' as const),
      label: fc.option(fc.nat(5), { nil: undefined }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('restore' as const), checkpoint: number }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('drop' as const), checkpoint: number }) },
)

const state = fc.record({
  session: number,
  checkpoint: fc.oneof(
    { weight: 3, arbitrary: fc.constant(undefined) },
    { weight: 3, arbitrary: number },
    fc.constant('base' as const),
  ),
})
const changeOfSession = fc.record({ session: number, change })

/** Operations on an engine, including `reopening` if the storage keeps its data. */
export function operations(options: { readonly reopening: boolean }): fc.Arbitrary<Operation[]> {
  const reopen = fc.record({ op: fc.constant('reopen' as const), crash: fc.boolean() })
  const collect = fc.record({
    op: fc.constant('collect' as const),
    keepRedo: fc.boolean(),
    crashAfter: fc.option(fc.nat(12), { nil: undefined }),
  })
  const operation: fc.Arbitrary<Operation> = fc.oneof(
    { weight: 50, arbitrary: changeOfSession.map((one) => ({ op: 'change' as const, ...one })) },
    {
      weight: 10,
      arbitrary: fc.record({
        op: fc.constant('burst' as const),
        changes: fc.array(changeOfSession, { minLength: 2, maxLength: 8 }),
        fork: fc.boolean(),
        collect: fc.boolean(),
      }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        op: fc.constant('fork' as const),
        session: number,
        checkpoint: fc.option(number, { nil: undefined }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constant('create' as const), files: fc.array(path, { maxLength: 4 }) }),
    },
    { weight: 2, arbitrary: fc.record({ op: fc.constant('delete session' as const), session: number }) },
    { weight: 8, arbitrary: fc.record({ op: fc.constant('diff' as const), from: state, to: state }) },
    {
      weight: 4,
      arbitrary: fc.record({
        op: fc.constant('verify' as const),
        session: number,
        pageSize: fc.constantFrom(1, 2, 7, 1000),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ op: fc.constant('rebuild' as const), session: number, shuffle: number }),
    },
    { weight: 3, arbitrary: fc.record({ op: fc.constant('bundle' as const), session: number, via: number }) },
    ...(options.reopening
      ? [
          { weight: 6, arbitrary: reopen },
          { weight: 4, arbitrary: collect },
        ]
      : []),
  )
  return fc.array(operation, { minLength: 1, maxLength: 60, size: 'max' })
}
