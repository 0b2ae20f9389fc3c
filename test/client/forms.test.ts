/** The handles of the client have the same shape as those of the engine, except for the differences listed here. */
import { expectTypeOf, test } from 'vitest'
import type { RemoteEngine, RemoteFs, RemoteSession } from '../../src/adapters/client/index.js'
import type { EngineScope, Session, SessionFs } from '../../src/index.js'

/** The names that only the engine's handle has. */
type Missing<Here, There> = Exclude<keyof Here, keyof There>

/** The names whose methods are incompatible with the engine's: other arguments or results. */
type Differing<Here, There> = {
  [Name in keyof Here & keyof There]: Shape<There[Name]> extends Shape<Here[Name]> ? never : Name
}[keyof Here & keyof There]

/** Without private members, which make classes incompatible. */
type Shape<T> = T extends (...parameters: never) => unknown ? T : { [Name in keyof T]: T[Name] }

/** Names that only the client's handle has. */
type Additional<Here, There> = Exclude<keyof There, keyof Here>

test('of an engine', () => {
  // Tokens replace narrowed handles.
  expectTypeOf<Missing<EngineScope, RemoteEngine>>().toEqualTypeOf<'narrow'>()
  // Closing applies to the whole engine.
  expectTypeOf<Additional<EngineScope, RemoteEngine>>().toEqualTypeOf<'close' | typeof Symbol.asyncDispose>()
  // `sent` is for adapters.
  expectTypeOf<Missing<EngineScope['usage'], RemoteEngine['usage']>>().toEqualTypeOf<'sent'>()
  expectTypeOf<Differing<EngineScope['usage'], RemoteEngine['usage']>>().toEqualTypeOf<never>()
})

test('of sessions', () => {
  type Here = EngineScope['sessions']
  type There = RemoteEngine['sessions']
  // Streams.
  expectTypeOf<Missing<Here, There>>().toEqualTypeOf<'importBundle'>()
  // These return handles. Host repositories and times to live are for engines in process.
  expectTypeOf<Differing<Here, There>>().toEqualTypeOf<'create' | 'open'>()
  type CreateRequest = Parameters<Here['create']>[0]
  expectTypeOf<Omit<NonNullable<CreateRequest>, 'gitRepository' | 'ttlSeconds'>>().toEqualTypeOf<
    NonNullable<Parameters<There['create']>[0]>
  >()
})

test('of sources', () => {
  type Here = EngineScope['sources']
  type There = RemoteEngine['sources']
  // Streams and listeners.
  expectTypeOf<Missing<Here, There>>().toEqualTypeOf<'exportTar' | 'onJob'>()
  expectTypeOf<Differing<Here, There>>().toEqualTypeOf<never>()
})

test('of a session', () => {
  // Tokens replace narrowed handles; drafts are handles; checkouts, commands and archives are on the host, or are streams.
  expectTypeOf<Missing<Session, RemoteSession>>().toEqualTypeOf<
    'narrow' | 'checkout' | 'draft' | 'exec' | 'exportBundle' | 'exportTar'
  >()
  expectTypeOf<Additional<Session, RemoteSession>>().toEqualTypeOf<never>()
  // These contain or return handles; mergers are functions; events have no principal, published messages have no id,
  // and a bundle of commits is a stream.
  expectTypeOf<Differing<Session, RemoteSession>>().toEqualTypeOf<
    'fs' | 'fork' | 'group' | 'withMetadata' | 'diff' | 'at' | 'merge' | 'commits' | 'events' | 'bus'
  >()
})

test('of the services of a session', () => {
  expectTypeOf<Missing<Session['events'], RemoteSession['events']>>().toEqualTypeOf<'follow' | 'verify'>()
  expectTypeOf<Differing<Session['events'], RemoteSession['events']>>().toEqualTypeOf<
    'list' | typeof Symbol.asyncIterator
  >()
  expectTypeOf<Missing<Session['bus'], RemoteSession['bus']>>().toEqualTypeOf<never>()
  expectTypeOf<Differing<Session['bus'], RemoteSession['bus']>>().toEqualTypeOf<'publish'>()
  type Diffs = readonly [ReturnType<Session['diff']>, ReturnType<RemoteSession['diff']>]
  expectTypeOf<Missing<Diffs[0], Diffs[1]>>().toEqualTypeOf<never>()
})

test('of the node:fs view', () => {
  type Promises = SessionFs['promises']
  // Open files and watchers.
  expectTypeOf<Missing<Promises, RemoteFs['promises']>>().toEqualTypeOf<
    'glob' | 'lchmod' | 'mkdtempDisposable' | 'open' | 'opendir' | 'statfs' | 'watch'
  >()
  expectTypeOf<Differing<Promises, RemoteFs['promises']>>().toEqualTypeOf<never>()
  expectTypeOf<Additional<SessionFs, RemoteFs>>().toEqualTypeOf<never>()
})
