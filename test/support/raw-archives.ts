import { crc32, deflateRawSync } from 'node:zlib'

/** Builds valid and invalid archives field by field. */

export interface RawTarEntry {
  readonly name?: string | Uint8Array
  readonly type?: string
  readonly content?: string | Uint8Array
  /** Written instead of the length of the content. */
  readonly size?: number
  readonly linkName?: string | Uint8Array
  readonly prefix?: string
  readonly magic?: string
  /** Raw header fields by offset. */
  readonly fields?: readonly (readonly [offset: number, text: string | Uint8Array])[]
  /** Added to the correct checksum. */
  readonly checksumOff?: number
}

export function tarEntry(entry: RawTarEntry): Buffer {
  const { name = 'a', type = '0', content = '', linkName = '', prefix = '', magic = 'ustar\x0000' } = entry
  const bytes = Buffer.from(content as Uint8Array)
  const header = Buffer.alloc(512)
  const put = (offset: number, text: string | Uint8Array): void => {
    header.set(Buffer.from(text as Uint8Array), offset)
  }
  put(0, name)
  put(100, '0000644\0')
  put(124, `${(entry.size ?? bytes.length).toString(8).padStart(11, '0')}\0`)
  put(136, '00000000000\0')
  put(156, type)
  put(157, linkName)
  put(257, magic)
  put(345, prefix)
  for (const [offset, text] of entry.fields ?? []) put(offset, text)
  put(148, '        ')
  let sum = entry.checksumOff ?? 0
  // By index, in a quarter of the time of an iterator: a bomb has hundreds of thousands of headers.
  for (let at = 0; at < header.length; at++) sum += header[at]!
  put(148, `${sum.toString(8).padStart(6, '0')}\0 `)
  return Buffer.concat([header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)])
}

export function tarOf(...entries: RawTarEntry[]): Buffer {
  return Buffer.concat([...entries.map(tarEntry), Buffer.alloc(1024)])
}

/** A pax header; each record is a key and a value, or raw text. */
export function pax(
  ...records: (readonly [key: string, value: string | Uint8Array] | string)[]
): RawTarEntry {
  const parts = records.map((record) => {
    if (typeof record === 'string') return Buffer.from(record)
    const [key, value] = record
    const body = Buffer.concat([Buffer.from(` ${key}=`), Buffer.from(value as Uint8Array), Buffer.from('\n')])
    let length = body.length + 1
    while (String(length).length + body.length !== length) length = String(length).length + body.length
    return Buffer.concat([Buffer.from(String(length)), body])
  })
  return { name: 'PaxHeaders/a', type: 'x', content: Buffer.concat(parts) }
}

export interface RawZipEntry {
  readonly name?: string | Uint8Array
  /** The name in the local header. */
  readonly localName?: string
  readonly content?: string | Uint8Array
  /** The compressed bytes, written unchanged. */
  readonly stored?: Uint8Array
  readonly method?: number
  readonly localMethod?: number
  readonly flags?: number
  readonly crc?: number
  readonly size?: number
  readonly compressedSize?: number
  /** Type and permission bits of Unix. */
  readonly mode?: number
  readonly madeOn?: number
  /** The offset of the local header, as the central directory states it. */
  readonly offset?: number
  readonly extra?: Uint8Array
}

export interface RawZipOptions {
  readonly count?: number
  readonly directoryOffset?: number
  readonly between?: Uint8Array
  readonly comment?: string
}

export function zipOf(entries: readonly RawZipEntry[], options: RawZipOptions = {}): Buffer {
  const parts: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const entry of entries) {
    const { name = 'a', content = '', method = 8, flags = 0x800, mode = 0o100644, madeOn = 3 } = entry
    const bytes = Buffer.from(content as Uint8Array)
    const nameBytes = Buffer.from(name as Uint8Array)
    const localName = entry.localName === undefined ? nameBytes : Buffer.from(entry.localName)
    const stored = Buffer.from(entry.stored ?? (method === 8 ? deflateRawSync(bytes) : bytes))
    const crc = entry.crc ?? crc32(bytes)
    const size = entry.size ?? bytes.length
    const compressedSize = entry.compressedSize ?? stored.length
    const local = Buffer.alloc(30)
    local.writeUInt32LE(0x04034b50, 0)
    local.writeUInt16LE(20, 4)
    local.writeUInt16LE(flags, 6)
    local.writeUInt16LE(entry.localMethod ?? method, 8)
    local.writeUInt32LE(crc, 14)
    local.writeUInt32LE(compressedSize, 18)
    local.writeUInt32LE(size, 22)
    local.writeUInt16LE(localName.length, 26)
    const extra = Buffer.from(entry.extra ?? [])
    const central = Buffer.alloc(46)
    central.writeUInt32LE(0x02014b50, 0)
    central.writeUInt16LE((madeOn << 8) | 20, 4)
    central.writeUInt16LE(flags, 8)
    central.writeUInt16LE(method, 10)
    central.writeUInt16LE(0x21, 14)
    central.writeUInt32LE(crc, 16)
    central.writeUInt32LE(compressedSize, 20)
    central.writeUInt32LE(size, 24)
    central.writeUInt16LE(nameBytes.length, 28)
    central.writeUInt16LE(extra.length, 30)
    central.writeUInt32LE((mode << 16) >>> 0, 38)
    central.writeUInt32LE(entry.offset ?? at, 42)
    directory.push(central, nameBytes, extra)
    parts.push(local, localName, stored)
    at += 30 + localName.length + stored.length
  }
  const between = Buffer.from(options.between ?? [])
  const central = Buffer.concat(directory)
  const comment = Buffer.from(options.comment ?? '')
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE((options.count ?? entries.length) & 0xffff, 8)
  end.writeUInt16LE((options.count ?? entries.length) & 0xffff, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(options.directoryOffset ?? at, 16)
  end.writeUInt16LE(comment.length, 20)
  return Buffer.concat([...parts, central, between, end, comment])
}
