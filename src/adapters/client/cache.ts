import type { SessionCache, PublicOf } from '../../engine/index.js'
import { toBytes } from './bytes.js'
import { Shape } from '../../engine/wire.js'
import { checked } from './checked.js'
import { pages } from './pages.js'
import type { InSession, SessionCalls } from './session-calls.js'

type Request<Name extends Exclude<keyof SessionCache, symbol>> = NonNullable<
  Parameters<SessionCache[Name]>[0]
>

const referenceShape = new Shape<Request<'get'>>({ key: true })

const batchShape = new Shape<Request<'batchSet'>>({ entries: true })

/** Keys and values beside the files. As `session.cache` in process. */
export class RemoteCache implements PublicOf<SessionCache> {
  readonly #session: SessionCalls

  constructor(session: SessionCalls) {
    this.#session = session
  }

  async put(request: Request<'put'>): Promise<void> {
    const copy = checked(request)
    await this.#session.run('putCacheEntry', { ...copy, value: toBytes(copy.value, 'value') })
  }

  async get(request: Request<'get'>): Promise<{ value: Uint8Array; found: boolean }> {
    const copy = checked(request)
    if (!hasNoRoute(copy)) return this.#session.call('getCacheEntry', copy)
    const { key } = referenceShape.read(copy)
    const [entry] = (await this.batchGet({ keys: [key] })).entries
    const { value, found } = entry!
    return { value, found }
  }

  delete(request: Request<'delete'>): Promise<void> {
    return this.#session.run('deleteCacheEntry', request)
  }

  exists(request: Request<'exists'>): Promise<{ exists: boolean }> {
    return this.#session.call('cacheEntryExists', request)
  }

  metadata(request: Request<'metadata'>): ReturnType<SessionCache['metadata']> {
    return this.#session.call('getCacheMetadata', request)
  }

  async compareAndSet(request: Request<'compareAndSet'>): ReturnType<SessionCache['compareAndSet']> {
    const { expectedValue, newValue, ...rest } = checked(request)
    return this.#session.call('compareAndSetCacheEntry', {
      ...rest,
      newValue: toBytes(newValue, 'newValue'),
      ...(expectedValue !== undefined && { expectedValue: toBytes(expectedValue, 'expectedValue') }),
    })
  }

  keys(request: Request<'keys'> = {}): ReturnType<SessionCache['keys']> {
    return this.#session.call('listCacheKeys', request)
  }

  [Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    return pages(async (page) => {
      const { keys, nextPageToken } = await this.keys(page)
      return [keys, nextPageToken]
    })
  }

  stats(): ReturnType<SessionCache['stats']> {
    return this.#session.call('getCacheStats', {})
  }

  batchGet(request: Request<'batchGet'>): ReturnType<SessionCache['batchGet']> {
    return this.#session.call('batchGetCache', request)
  }

  async batchSet(request: Request<'batchSet'>): Promise<void> {
    const { entries } = batchShape.read(checked(request))
    const wire = Array.isArray(entries)
      ? Array.from(entries as Request<'batchSet'>['entries'], (entry, index) => ({
          ...entry,
          value: toBytes(checked(entry, `entries[${index}]`).value, `entries[${index}].value`),
        }))
      : entries
    await this.#session.run('batchSetCache', { entries: wire as InSession<'batchSetCache'>['entries'] })
  }

  batchDelete(request: Request<'batchDelete'>): Promise<{ deletedCount: number }> {
    return this.#session.call('batchDeleteCache', request)
  }

  deleteByPrefix(request: Request<'deleteByPrefix'>): Promise<{ deletedCount: number }> {
    return this.#session.call('deleteCacheByPrefix', request)
  }
}

/** The route of such a key is that of something else. */
function hasNoRoute(request: { readonly key: string }): boolean {
  return request?.key === 'keys' || request?.key === 'stats'
}
