/** Shared by every copy of this module in the process. */
const registryKey = Symbol.for('forkspace.level.open-directories')

/**
 * The directories of the stores that are open in this process, as texts of device and inode. Callers must not reach
 * them as files, even if an allowed directory contains them: the files have the data of all tenants.
 */
export function openStores(): Set<string> {
  const shared = globalThis as unknown as Record<symbol, Set<string> | undefined>
  return (shared[registryKey] ??= new Set())
}

/** Whether a directory is that of an open store. */
export function isOpenStore({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): boolean {
  return openStores().has(`${dev}:${ino}`)
}
