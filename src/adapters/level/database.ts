import type { Level } from 'level'

/** What the store uses of LevelDB. Tests wrap it in one that fails. */
export type Database = Pick<Level<string, string>, 'batch' | 'close' | 'get' | 'getSync' | 'iterator'>

/** Values are UTF-8 text by default; this reads and writes bytes. */
export const asBytes = { valueEncoding: 'view' } as const
