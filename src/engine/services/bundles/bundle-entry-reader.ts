import { limits } from '../../base/limits.js'
import { checkFileSize } from '../../cas/staging.js'
import {
  FileNode,
  Link,
  LinkedFile,
  Symlink,
  type Attributes,
  type Dir,
  type Entry,
} from '../../tree/node.js'
import type { Xattr, Xattrs } from '../../tree/xattrs.js'
import type { BodyReader } from './bundle-body-reader.js'
import { asAddress, asInteger, asList, asNumber, asObject, asText, damaged } from './bundle-checks.js'
import type { NodeVault } from './bundle-nodes.js'

/** Reads the entries of a bundle's directories, one entry at a time. */
export class EntryReader {
  readonly #vault: NodeVault
  readonly #bodies: BodyReader
  readonly #maxFileBytes: number

  constructor(vault: NodeVault, bodies: BodyReader, maxFileBytes: number) {
    this.#vault = vault
    this.#bodies = bodies
    this.#maxFileBytes = maxFileBytes
  }

  async entry(value: readonly unknown[]): Promise<Entry> {
    switch (value[0]) {
      case 'f':
        return this.#file(value)
      case 'd': {
        const dir = this.directory(value)
        if (dir.height >= limits.pathDepth) throw damaged('a tree is too deep')
        return dir
      }
      case 'l': {
        const target = asText(value[2], limits.pathBytes)
        if (target === '' || target.includes('\0'))
          throw damaged('the target of a symlink is empty or contains NUL')
        return new Symlink(asIno(value[1]), target, asNumber(value[3]))
      }
      case 'h':
        return new Link(asIno(value[1]))
    }
    throw damaged('an entry has an unknown kind')
  }

  directory(value: readonly unknown[]): Dir {
    const address = asAddress(value[6])
    const facts = this.#vault.facts(address)
    if (facts?.kind !== 'directory' || facts.table) throw damaged('a directory is missing')
    return this.#vault.directory(address, this.#attributes(value, value[7]))
  }

  async #file(value: readonly unknown[]): Promise<FileNode> {
    const size = asInteger(value[6], 0)
    checkFileSize(size, this.#maxFileBytes)
    const attributes = this.#attributes(value, value[8])
    const file = new FileNode(attributes, size, await this.#bodies.body(value[7], size))
    const { n } = asObject(value[8] ?? {})
    return n === undefined ? file : new LinkedFile(file, asInteger(n, 1))
  }

  #attributes(value: readonly unknown[], extra: unknown): Attributes {
    return {
      ino: asIno(value[1]),
      mode: asInteger(value[2], 0, 0o7777),
      mtime: asNumber(value[3]),
      ctime: asNumber(value[4]),
      birthtime: asNumber(value[5]),
      xattrs: this.#xattrs(asObject(extra ?? {})['x']),
    }
  }

  #xattrs(value: unknown): Xattrs | undefined {
    if (value === undefined) return undefined
    const xattrs: Xattr[] = []
    for (const item of asList(value, limits.xattrsPerNode)) {
      const [given, hash, length] = asList(item)
      const name = asText(given, limits.xattrNameBytes)
      const last = xattrs.at(-1)
      if (name === '' || name.includes('\0') || (last !== undefined && last[0] >= name))
        throw damaged('extended attributes are not in order')
      xattrs.push([name, this.#bodies.blob(hash, asInteger(length, 0, limits.xattrValueBytes))])
    }
    return xattrs.length === 0 ? undefined : xattrs
  }
}

function asIno(value: unknown): number {
  return asInteger(value, 1)
}
