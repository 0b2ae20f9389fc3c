/** A value without data that differs between runs: ids are numbered in order of appearance, and times are removed. */
export function plainly(value: unknown): unknown {
  const ids = new Map<string, string>()
  const plain = (one: unknown, key = ''): unknown => {
    if (/^(tenantId|principal)$/.test(key)) return 'who'
    if (key === 'nextPageToken') return one === ''
    if (typeof one === 'string') {
      if (/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(one)) return 'time'
      if (/^[\da-f]{40}$/.test(one)) return 'oid'
      return one.replaceAll(/\b[\da-z]{36}\b/g, (id) => {
        if (!ids.has(id)) ids.set(id, `id ${ids.size}`)
        return ids.get(id)!
      })
    }
    if (typeof one === 'bigint') return `${one}n`
    if (/^(inode|mtimeMs|ctimeMs|birthtimeMs|timeToFirstWriteMs)$/.test(key)) return typeof one
    if (one instanceof Uint8Array) return Buffer.from(one).toString('hex')
    if (Array.isArray(one)) return one.map((part) => plain(part))
    if (typeof one !== 'object' || one === null) return one
    return Object.fromEntries(Object.entries(one).map(([name, part]) => [name, plain(part, name)]))
  }
  return plain(value)
}
