/** The handles of the client and of the engine have one shape, but for what is listed here. */
import { expectTypeOf, test } from 'vitest'
import type { RemoteEngine, RemoteFs, RemoteSession } from '../../src/adapters/client/index.js'
import type { EngineScope, Session, SessionFs } from '../../src/index.js'

/** The names that only the engine's handle has. */
type Missing<Here, There> = Exclude<keyof Here, keyof There>

/** The names whose methods cannot stand for the engine's: other arguments, or other results. */
type Differing<Here, There> = {
  [Name in keyof Here & keyof There]: Shape<There[Name]> extends Shape<Here[Name]> ? never : Name
}[keyof Here & keyof There]

/** Without what is private, by which classes differ. */
type Shape<T> = T extends (...parameters: never) => unknown ? T : { [Name in keyof T]: T[Name] }

/** Nothing that the engine's handle does not have. */
type Additional<Here, There> = Exclude<keyof There, keyof Here>

test('of an engine', () => {
  // A handle that may do less is what a token is for.
  expectTypeOf<Missing<EngineScope, RemoteEngine>>().toEqualTypeOf<'narrow'>()
  // Closing is the whole engine's.
  expectTypeOf<Additional<EngineScope, RemoteEngine>>().toEqualTypeOf<'close' | typeof Symbol.asyncDispose>()
  // `sent` is for adapters.
  expectTypeOf<Missing<EngineScope['usage'], RemoteEngine['usage']>>().toEqualTypeOf<'sent'>()
  expectTypeOf<Differing<EngineScope['usage'], RemoteEngine['usage']>>().toEqualTypeOf<never>()
})

test('of sessions', () => {
  type Here = EngineScope['sessions']
  type There = RemoteEngine['sessions']
  // What streams.
  expectTypeOf<Missing<Here, There>>().toEqualTypeOf<'importBundle'>()
  // They give handles. A repository of the host and a time to live are for engines in process.
  expectTypeOf<Differing<Here, There>>().toEqualTypeOf<'create' | 'open'>()
  type CreateRequest = Parameters<Here['create']>[0]
  expectTypeOf<Omit<NonNullable<CreateRequest>, 'gitRepository' | 'ttlSeconds'>>().toEqualTypeOf<
    NonNullable<Parameters<There['create']>[0]>
  >()
})

test('of sources', () => {
  type Here = EngineScope['sources']
  type There = RemoteEngine['sources']
  // What streams, and listeners.
  expectTypeOf<Missing<Here, There>>().toEqualTypeOf<'exportTar' | 'onJob'>()
  expectTypeOf<Differing<Here, There>>().toEqualTypeOf<never>()
})

test('of a session', () => {
  // A handle that may do less is what a token is for; checkouts and archives are on the host, or stream.
  expectTypeOf<Missing<Session, RemoteSession>>().toEqualTypeOf<
    'narrow' | 'checkout' | 'exportBundle' | 'exportTar'
  >()
  expectTypeOf<Additional<Session, RemoteSession>>().toEqualTypeOf<never>()
  // What holds or gives handles; no principal in events, no id of a published message.
  expectTypeOf<Differing<Session, RemoteSession>>().toEqualTypeOf<'fs' | 'fork' | 'diff' | 'events' | 'bus'>()
})

test('of what a session has', () => {
  expectTypeOf<Missing<Session['events'], RemoteSession['events']>>().toEqualTypeOf<'follow' | 'verify'>()
  expectTypeOf<Differing<Session['events'], RemoteSession['events']>>().toEqualTypeOf<
    'list' | typeof Symbol.asyncIterator
  >()
  expectTypeOf<Missing<Session['bus'], RemoteSession['bus']>>().toEqualTypeOf<never>()
  expectTypeOf<Differing<Session['bus'], RemoteSession['bus']>>().toEqualTypeOf<'publish'>()
  type Diffs = readonly [ReturnType<Session['diff']>, ReturnType<RemoteSession['diff']>]
  expectTypeOf<Missing<Diffs[0], Diffs[1]>>().toEqualTypeOf<never>()
})

test('of the view in the shape of node:fs', () => {
  type Promises = SessionFs['promises']
  // What is open between calls, and what tells of changes.
  expectTypeOf<Missing<Promises, RemoteFs['promises']>>().toEqualTypeOf<
    'glob' | 'lchmod' | 'mkdtempDisposable' | 'open' | 'opendir' | 'statfs' | 'watch'
  >()
  expectTypeOf<Differing<Promises, RemoteFs['promises']>>().toEqualTypeOf<never>()
  expectTypeOf<Additional<SessionFs, RemoteFs>>().toEqualTypeOf<never>()
})
