import { createHash } from 'node:crypto'
import { CarReader } from '@ipld/car'
import { createWriter, headerLength, blockLength } from '@ipld/car/buffer-writer'
import * as json from 'multiformats/codecs/json'
import * as raw from 'multiformats/codecs/raw'
import { CID } from 'multiformats/cid'
import { sha256 } from 'multiformats/hashes/sha2'

/** A bundle as other tools read it. */
export interface BundleFile {
  root: CID
  readonly blocks: { cid: CID; bytes: Uint8Array }[]
}

export const textNames = ['checkpoints', 'annotations', 'approvals', 'events'] as const
type TextName = (typeof textNames)[number]

/** The parts of a bundle, which a test can change and reassemble. */
export interface BundleParts {
  readonly manifest: Record<string, unknown> & {
    state: { manifestHash: string; root: unknown[] }
    baseline: { manifestHash: string; root: unknown[] }
    texts: Record<TextName, { count: number; blocks: string[] }>
  }
  /** Contents, and tree listings as JSON. */
  readonly trees: (Uint8Array | string)[]
  readonly texts: Record<TextName, unknown[]>
}

export async function bytesOf(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of content) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** Recomputes every CID and checks it against its block. */
export async function readFile(bytes: Uint8Array): Promise<BundleFile> {
  const reader = await CarReader.fromBytes(bytes)
  const [root, ...others] = await reader.getRoots()
  if (root === undefined || others.length > 0) throw new Error('not one root')
  const blocks: BundleFile['blocks'] = []
  for await (const { cid, bytes: content } of reader.blocks()) {
    const again = CID.create(1, cid.code, await sha256.digest(content))
    if (!again.equals(cid)) throw new Error(`${cid.toString()} is ${again.toString()}`)
    blocks.push({ cid, bytes: content })
  }
  return { root, blocks }
}

export function writeFile({ root, blocks }: BundleFile): Buffer {
  const roots = [root]
  let length = headerLength({ roots })
  for (const block of blocks) length += blockLength(block)
  const writer = createWriter(new ArrayBuffer(length), { roots })
  for (const block of blocks) writer.write(block)
  return Buffer.from(writer.close())
}

export async function takeApart(bytes: Uint8Array): Promise<BundleParts> {
  const { blocks } = await readFile(bytes)
  const manifest = JSON.parse(Buffer.from(blocks[0]!.bytes).toString()) as BundleParts['manifest']
  const count = manifest['treeBlocks'] as number
  const trees = blocks
    .slice(1, 1 + count)
    .map(({ cid, bytes: content }) => (cid.code === json.code ? Buffer.from(content).toString() : content))
  let next = 1 + count
  const texts = {} as Record<TextName, unknown[]>
  for (const name of textNames) {
    const pieces = blocks.slice(next, (next += manifest.texts[name].blocks.length))
    const text = Buffer.concat(pieces.map((piece) => piece.bytes)).toString()
    texts[name] = text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as unknown)
  }
  return { manifest, trees, texts }
}

/** Assembles a bundle and computes the hashes of its current parts. */
export async function putTogether({ manifest, trees, texts }: BundleParts): Promise<Buffer> {
  const blocks: BundleFile['blocks'] = []
  const add = async (code: number, bytes: Uint8Array): Promise<CID> => {
    const cid = CID.create(1, code, await sha256.digest(bytes))
    blocks.push({ cid, bytes })
    return cid
  }
  for (const tree of trees)
    await (typeof tree === 'string' ? add(json.code, Buffer.from(tree)) : add(raw.code, tree))
  const indexes = {} as BundleParts['manifest']['texts']
  for (const name of textNames) {
    const text = Buffer.from(texts[name].map((line) => `${JSON.stringify(line)}\n`).join(''))
    indexes[name] = { count: texts[name].length, blocks: [] }
    for (let from = 0; from < text.length; from += 1000) {
      const cid = await add(raw.code, text.subarray(from, from + 1000))
      indexes[name].blocks.push(Buffer.from(cid.multihash.digest).toString('hex'))
    }
  }
  const whole = { ...manifest, treeBlocks: trees.length, texts: indexes }
  const bytes = Buffer.from(JSON.stringify(whole))
  const root = CID.create(1, json.code, await sha256.digest(bytes))
  return writeFile({ root, blocks: [{ cid: root, bytes }, ...blocks] })
}

export function hashOf(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex')
}

/** The address of a tree listing. */
export function addressOf(tree: string): string {
  return hashOf(tree).slice(0, 40)
}
