import type { SessionCache, PublicOf } from '../../engine/index.js'
import { toBytes } from './bytes.js'
import { itemAt, Shape } from '../../engine/client-contract.js'
import { checked } from './checked.js'
import { pages } from './pages.js'
import { callsOf, remoteService } from './remote-service.js'
import type { InSession } from './session-calls.js'

type Request<Name extends Exclude<keyof SessionCache, symbol>> = NonNullable<
  Parameters<SessionCache[Name]>[0]
>

const referenceShape = new Shape<Request<'get'>>({ key: true })

const batchShape = new Shape<Request<'batchSet'>>({ entries: true })

/**
 * Keys and values of a session, separate from its files. Like `session.cache` of a local engine. Each method
 * also throws the errors of {@link connect}.
 */
export class RemoteCache
  extends remoteService('session.cache', 'put', 'get', 'compareAndSet', 'batchSet')
  implements PublicOf<SessionCache>
{
  async put(request: Request<'put'>): Promise<void> {
    const copy = checked(request)
    await callsOf(this).run('putCacheEntry', { ...copy, value: toBytes(copy.value, 'value') })
  }

  async get(request: Request<'get'>): ReturnType<SessionCache['get']> {
    const copy = checked(request)
    if (!hasNoRoute(copy)) return callsOf(this).call('getCacheEntry', copy)
    const { key } = referenceShape.read(copy)
    const { entries } = await this.batchGet({ keys: [key] })
    const { value, found } = itemAt(entries, 0)
    return { value, found }
  }

  async compareAndSet(request: Request<'compareAndSet'>): ReturnType<SessionCache['compareAndSet']> {
    const { expectedValue, newValue, ...rest } = checked(request)
    return callsOf(this).call('compareAndSetCacheEntry', {
      ...rest,
      newValue: toBytes(newValue, 'newValue'),
      ...(expectedValue !== undefined && { expectedValue: toBytes(expectedValue, 'expectedValue') }),
    })
  }

  /**
   * All keys, in byte order. It requests one page after the other.
   *
   * @example
   * for await (const key of session.cache) console.log(key)
   */
  [Symbol.asyncIterator](): AsyncGenerator<string, void, undefined> {
    return pages(async (page) => {
      const { keys, nextPageToken } = await this.keys(page)
      return [keys, nextPageToken]
    })
  }

  async batchSet(request: Request<'batchSet'>): Promise<void> {
    const { entries } = batchShape.read(checked(request))
    const wire = Array.isArray(entries)
      ? Array.from(entries as Request<'batchSet'>['entries'], (entry, index) => ({
          ...entry,
          value: toBytes(checked(entry, `entries[${index}]`).value, `entries[${index}].value`),
        }))
      : entries
    await callsOf(this).run('batchSetCache', { entries: wire as InSession<'batchSetCache'>['entries'] })
  }
}

/** Whether the URL for this key is the route of another operation. */
function hasNoRoute(request: { readonly key: string }): boolean {
  return request?.key === 'keys' || request?.key === 'stats'
}
