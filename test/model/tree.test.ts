import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Fault, whenLoaded } from '../../src/engine/base/fault.js'
import { IdSource } from '../../src/engine/base/ids.js'
import { runInSlices } from '../../src/engine/base/cooperative.js'
import { BlobRef } from '../../src/engine/cas/blob.js'
import { ContentStore } from '../../src/engine/cas/content.js'
import { ContentIds } from '../../src/engine/tree/content-id.js'
import { decodeNode, encodeNode } from '../../src/engine/tree/codec.js'
import type { EncodedNode } from '../../src/engine/tree/encoded.js'
import { TreeDiff } from '../../src/engine/tree/diff.js'
import { flushTree, type Flushed } from '../../src/engine/tree/flush.js'
import { hashTree } from '../../src/engine/tree/hash.js'
import { StoreLoader } from '../../src/engine/tree/loader.js'
import { Dir, FileNode, LinkedFile, type Page } from '../../src/engine/tree/node.js'
import { NodeCache } from '../../src/engine/tree/node-cache.js'
import { MemoryRoots } from '../../src/engine/tree/memory-roots.js'
import { StoredRoots } from '../../src/engine/tree/stored-roots.js'
import { emptyRoot, Tree } from '../../src/engine/tree/tree.js'
import { memoryStorage } from '../../src/index.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import { compareBytes } from './model-tree.js'
import { exoticNames, numberedNames, pageEnds, plainNames } from './names.js'
import { isLong, runs, seed } from '../support/seed.js'
import { canonicalPages, checkPages, checkTree } from './tree-checks.js'

const environment = fixedEnvironment()
const attributes = { ino: 1, mode: 0o755, mtime: 1, ctime: 1, birthtime: 1 }
const ending = numberedNames('e', 400, true)
const plain = numberedNames('p', 20_000, false)

test(`pages depend only on the sorted names, not on their changes (FORKSPACE_SEED=${seed})`, async () => {
  const name = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...plainNames, ...exoticNames, ...pageEnds) },
    { weight: 2, arbitrary: fc.constantFrom(...ending) },
    { weight: 4, arbitrary: fc.constantFrom(...plain.slice(0, 3000)) },
    { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 }) },
  )
  const operation = fc.oneof(
    {
      weight: 10,
      arbitrary: fc.record({
        op: fc.constantFrom('put' as const, 'remove' as const),
        names: fc.array(name, { minLength: 1, maxLength: 5 }),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        op: fc.constantFrom('fill' as const, 'clear' as const),
        from: fc.nat(2500),
        count: fc.constantFrom(1, 100, 1023, 1024, 1025, 2500),
        step: fc.constantFrom(1, 2, 7),
      }),
    },
    { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('freeze' as const, 'reload' as const) }) },
  )
  const property = fc.asyncProperty(
    fc.array(operation, { minLength: 1, maxLength: 40, size: 'max' }),
    fc.boolean(),
    async (list, syncReads) => {
      const stored = await storedTrees(syncReads)
      let tree = stored.empty()
      const names = new Set<string>()
      const put = async (path: string): Promise<void> => {
        if (names.has(path)) return
        names.add(path)
        await stored.change(tree, () => tree.put([path], file(path), 2))
      }
      const remove = async (path: string): Promise<void> => {
        if (!names.delete(path)) return
        await stored.change(tree, () => tree.remove([path], 2))
      }
      for (const step of list) {
        if (step.op === 'put') for (const one of step.names) await put(one)
        else if (step.op === 'remove') for (const one of step.names) await remove(one)
        else if (step.op === 'fill' || step.op === 'clear') {
          for (let i = 0; i < step.count; i++)
            await (step.op === 'fill' ? put : remove)(plain[(step.from + i * step.step) % 3000]!)
        } else if (step.op === 'freeze') tree.freeze()
        else tree = await stored.reload(tree.freeze())
      }
      const root = tree.freeze()
      await checkTree(root, tree.loader)
      expect(root.pages!.map((page) => page.names)).toEqual(canonicalPages([...names]))
      const fresh = stored.empty()
      for (const one of shuffled([...names], randomWords(names.size))) fresh.put([one], file(one), 3)
      expect(await stored.hash(root)).toBe(await stored.hash(fresh.freeze()))
    },
  )
  expect.hasAssertions()
  await fc.assert(property, {
    seed,
    numRuns: runs(30),
    interruptAfterTimeLimit: 50_000,
    markInterruptAsFailure: true,
  })
})

const byName = plain.toSorted(compareBytes)
// A change at the start of a long run splits the whole run again, so a few thousand removals there are enough.
const awkward = [...byName.slice(0, 2000), ...byName.slice(2000).reverse()]

test.each([
  ['in random order', shuffled(plain, randomWords(seed)), shuffled(plain, randomWords(seed + 1))],
  ['in ascending order', byName, awkward],
])(
  'handles a directory in which no name ends a page, %s',
  { timeout: 180_000 },
  async (_, order, removal) => {
    const stored = await storedTrees(true)
    const tree = stored.empty()
    for (const [index, name] of order.entries()) {
      tree.put([name], file(name), 2)
      if (index % 5000 === 4999) checkPages(tree.root.pages!)
    }
    expect(tree.root.pages!.map((page) => page.names)).toEqual(canonicalPages(plain))
    expect(tree.root.pages!.length).toBe(Math.ceil(plain.length / 1024))
    // A name that ends a page moves every later page boundary, and removing it moves them back.
    const [end] = ending
    tree.put([end!], file(end!), 2)
    checkPages(tree.root.pages!)
    tree.remove([end!], 2)
    expect(tree.root.pages!.map((page) => page.names)).toEqual(canonicalPages(plain))
    for (const [index, name] of removal.entries()) {
      tree.remove([name], 2)
      if (index % 5000 === 1999) checkPages(tree.root.pages!)
    }
    expect(tree.root.pages!.map((page) => page.names)).toEqual([[]])
  },
)

test('handles a directory in which every name ends a page', async () => {
  const stored = await storedTrees(true)
  const tree = stored.empty()
  const names = numberedNames('e', isLong ? 2000 : 600, true)
  for (const name of shuffled(names, randomWords(seed))) tree.put([name], file(name), 2)
  expect(tree.root.pages!.map((page) => page.names)).toEqual(
    names.toSorted(compareBytes).map((name) => [name]),
  )
  const reloaded = await stored.reload(tree.freeze())
  await checkTree(reloaded.root, reloaded.loader)
  for (const name of shuffled(names, randomWords(seed + 1))) {
    reloaded.remove([name], 2)
    if (reloaded.root.pages!.length % 100 === 0) checkPages(reloaded.root.pages!)
  }
  expect(reloaded.root.pages!.map((page) => page.names)).toEqual([[]])
})

test('hashes a directory of several pages that are loaded by faults', { timeout: 5000 }, async () => {
  const stored = await storedTrees(false)
  const tree = stored.empty()
  for (const name of ending.slice(0, 3)) tree.put([name], file(name), 2)
  const reloaded = await stored.reload(tree.freeze())
  expect(await stored.hash(reloaded.root)).toBe(await stored.hash(tree.freeze()))
})

test(`reads back the tree that was written, synchronously and by faults (FORKSPACE_SEED=${seed})`, async () => {
  for (const syncReads of [true, false]) {
    const stored = await storedTrees(syncReads)
    const random = randomWords(seed)
    const tree = stored.empty()
    for (let i = 0; i < 300; i++) {
      const path = randomPath(random)
      await stored.change(tree, () => putAt(tree, path, `${i}`))
    }
    const root = tree.freeze()
    const [lines, hash] = [await checkTree(root, tree.loader), await stored.hash(root)]
    const reloaded = await stored.reload(root)
    expect(reloaded.root.pages).toBeNull()
    expect(await checkTree(reloaded.root, reloaded.loader)).toEqual(lines)
    expect(await stored.hash((await stored.reload(root)).root)).toBe(hash)
    const again = await stored.reload(reloaded.freeze())
    expect(again.root.address).toBe(root.address)
  }
})

test(`a diff equals a comparison of all paths (FORKSPACE_SEED=${seed})`, async () => {
  for (let round = 0; round < runs(20); round++) {
    const random = randomWords(seed + round)
    const stored = await storedTrees(round % 2 === 0)
    const tree = stored.empty()
    for (let i = 0; i < 200; i++) await stored.change(tree, () => putAt(tree, randomPath(random), `${i}`))
    let before = tree.freeze()
    if (random() % 2 === 0) before = (await stored.reload(before)).root
    for (let i = random() % 20; i >= 0; i--) {
      const path = randomPath(random)
      await stored.change(tree, () => {
        if (random() % 2 === 0 || tree.find(path) === undefined) putAt(tree, path, `new ${i}`)
        else tree.remove(path, 3)
      })
    }
    let after = tree.freeze()
    if (random() % 2 === 0) after = (await stored.reload(after)).root
    // Half of the diffs know no hashes and must compare entries.
    if (random() % 2 === 0) await Promise.all([stored.hash(before), stored.hash(after)])
    const found = await differences(stored, before, after)
    const [left, right] = [await contentsOf(before, stored), await contentsOf(after, stored)]
    const expected: string[] = []
    for (const [path, content] of left) {
      if (!right.has(path)) expected.push(`- ${path}`)
      else if (kindOf(right.get(path)!) !== kindOf(content)) expected.push(`- ${path}`, `+ ${path}`)
      else if (right.get(path) !== content) expected.push(`~ ${path}`)
    }
    for (const path of right.keys()) if (!left.has(path)) expected.push(`+ ${path}`)
    expect(found.toSorted()).toEqual(expected.toSorted())
    // A path whose kind changed is removed with everything below it before it is added.
    for (const sides of ['-~', '+~']) {
      const paths = found.filter((line) => sides.includes(line.charAt(0))).map(pathOf)
      expect(paths).toEqual(paths.toSorted(comparePaths))
    }
  }
})

test(`links in many pages share their files (FORKSPACE_SEED=${seed})`, async () => {
  for (let round = 0; round < runs(30); round++) {
    const random = randomWords(seed + round)
    const stored = await storedTrees(round % 2 === 0)
    let tree = stored.empty()
    const directories = ['d', 'e', 'e/f']
    for (const path of directories) tree.makeDir(path.split('/'), attributes)
    // Names of the same file share its object.
    const model = new Map<string, LinkModel>()
    const pick = (): string => [...model.keys()][random() % model.size]!
    const freePath = (): string => {
      const name = [...ending.slice(0, 100), ...plain.slice(0, 100)][random() % 200]!
      return ['', ...directories][random() % 4]!.replace(/.$/, '$&/') + name
    }
    let frozen: { root: Dir; model: Map<string, string> } | undefined
    for (let i = 0; i < 250; i++) {
      const [to, kind] = [freePath(), random() % 12]
      if (kind < 3 || model.size === 0) {
        const content = { text: `${i}`, ino: model.get(to)?.ino ?? 1000 + i }
        const known = model.get(to)
        if (known === undefined) model.set(to, content)
        else known.text = content.text
        await stored.change(tree, () => {
          const node = fileOf(content)
          if (known === undefined) tree.put(to.split('/'), node, 2)
          else tree.replace(to.split('/'), node, 2)
        })
      } else if (kind < 6) {
        const from = pick()
        if (model.has(to)) continue
        model.set(to, model.get(from)!)
        await stored.change(tree, () => tree.link(from.split('/'), to.split('/'), 3))
      } else if (kind < 8) {
        const path = pick()
        model.delete(path)
        await stored.change(tree, () => tree.remove(path.split('/'), 4))
      } else if (kind < 9) {
        const from = pick()
        if (model.get(to) === model.get(from)) continue
        model.set(to, model.get(from)!)
        model.delete(from)
        await stored.change(tree, () => tree.move(from.split('/'), to.split('/'), 5))
      } else if (kind < 10) {
        // Undone, like a change that fails.
        const before = tree.freeze()
        const [from, path] = [pick(), pick()]
        await stored.change(tree, () => {
          tree.link(from.split('/'), ['undone'], 6)
          tree.replace(from.split('/'), fileOf({ text: 'undone', ino: model.get(from)!.ino }), 6)
          tree.remove(path.split('/'), 6)
        })
        tree.reset(before)
      } else if (kind < 11) {
        const choice = random() % 8
        if (choice < 2 || frozen === undefined) frozen = { root: tree.freeze(), model: textsOf(model) }
        else if (choice < 4) {
          await stored.change(tree, () => {
            tree.remove(['e', 'f'], 7)
            tree.makeDir(['e', 'f'], attributes)
          })
          for (const path of model.keys()) if (path.startsWith('e/f/')) model.delete(path)
        }
      } else tree = await stored.reload(tree.freeze())
    }
    const root = tree.freeze()
    await checkTree(root, tree.loader)
    if (root.links !== undefined) checkPages(await pagesOf(root.links, tree))
    // The link counts equal those of the model, and the table has no entry without names.
    const counts = new Map<number, number>()
    for (const { ino } of model.values()) counts.set(ino, (counts.get(ino) ?? 0) + 1)
    for (const [path, { ino, text }] of model) {
      const node = tree.find(path.split('/'))
      expect(node).toMatchObject({ ino, size: text.length })
      expect(node instanceof LinkedFile ? node.nlink : 1).toBe(counts.get(ino))
    }
    const table = root.links === undefined ? [] : await pagesOf(root.links, tree)
    for (const page of table)
      for (const node of page.nodes) expect(counts.has((node as FileNode).ino)).toBe(true)
    // Equal but separate files make the same tree.
    const fresh = stored.empty()
    for (const path of directories) fresh.makeDir(path.split('/'), attributes)
    for (const [path, { text }] of shuffled([...model], random)) fresh.put(path.split('/'), file(text), 3)
    const separate = fresh.freeze()
    const unloaded = (await stored.reload(root)).root
    const expectedHash = await stored.hash(separate)
    expect(await stored.hash(round % 3 === 0 ? root : unloaded)).toBe(expectedHash)
    expect(await stored.hash(unloaded)).toBe(expectedHash)
    expect(await differences(stored, root, separate)).toEqual([])
    expect(await differences(stored, unloaded, root)).toEqual([])
    if (frozen === undefined) continue
    const expected: string[] = []
    const [left, right] = [frozen.model, textsOf(model)]
    for (const path of new Set([...left.keys(), ...right.keys()])) {
      const [a, b] = [left.get(path), right.get(path)]
      if (a !== b) expected.push(`${a === undefined ? '+' : b === undefined ? '-' : '~'} /${path}`)
    }
    for (const [before, after] of [
      [frozen.root, root],
      [(await stored.reload(frozen.root)).root, root],
      [frozen.root, unloaded],
    ] as const)
      expect((await differences(stored, before, after)).toSorted()).toEqual(expected.toSorted())
  }
})

test('hashes two trees that share directories with links at the same time', async () => {
  const large = 'x'.repeat(20_000)
  const fill = (tree: Tree): void => {
    for (const path of [['d'], ['d', 'e'], ['d', 'g']]) tree.makeDir(path, attributes)
    for (const name of [...ending.slice(0, 5), 'f']) tree.put(['d', name], file(large), 2)
  }
  const expected: string[] = []
  for (const text of ['one', 'two']) {
    const separate = await storedTrees(true)
    const tree = separate.empty()
    fill(tree)
    for (const path of [['a'], ['d', 'e', 'b'], ['d', 'g', 'b']]) tree.put(path, file(text), 2)
    expected.push(await separate.hash(tree.freeze()))
  }
  for (let lead = 0; lead < 40; lead++) {
    const stored = await storedTrees(true)
    const tree = stored.empty()
    fill(tree)
    tree.put(['a'], fileOf({ text: 'one', ino: 7 }), 2)
    for (const name of ['e', 'g']) tree.link(['a'], ['d', name, 'b'], 2)
    const before = tree.freeze()
    tree.replace(['a'], fileOf({ text: 'two', ino: 7 }), 3)
    const roots = [before, tree.freeze()]
    const works = roots.map((root) => hashTree(root, stored.ids, stored.loader))
    const hashes: (string | undefined)[] = [undefined, undefined]
    for (let step = 0; hashes.includes(undefined); step++) {
      // The two sides must not make each other repeat work forever.
      expect(step).toBeLessThan(1000)
      for (const [index, work] of works.entries()) {
        if (hashes[index] !== undefined || (index === 1 && step < lead)) continue
        const next = work.next()
        if (next.done === true) hashes[index] = next.value
        else if (next.value !== undefined) await next.value
      }
    }
    expect(hashes, `${lead} steps ahead`).toEqual(expected)
    for (const [index, root] of roots.entries()) expect(await stored.hash(root)).toBe(expected[index])
  }
})

test.each([true, false])(
  'distinguishes roots that differ only in their links (durable: %s)',
  async (durable) => {
    const store = await memoryStorage({ durable }).open()
    const nodes = new NodeCache(1)
    const loader = new StoreLoader(store, nodes)
    const roots = durable
      ? new StoredRoots(store, { environment, nodes })
      : new MemoryRoots(new IdSource(environment))
    const tree = new Tree(emptyRoot(attributes), loader)
    tree.put(['a'], fileOf({ text: 'one', ino: 7 }), 2)
    tree.link(['a'], ['b'], 1)
    const [before, encoded] = [tree.freeze(), [] as string[]]
    encoded.push(JSON.stringify(await roots.save(before)))
    tree.replace(['b'], fileOf({ text: 'three', ino: 7 }), 3)
    const after = tree.freeze()
    encoded.push(JSON.stringify(await roots.save(after)))
    const sizes = encoded.map((json) => {
      const loaded = new Tree(roots.load(JSON.parse(json) as EncodedNode), loader)
      return ['a', 'b'].map((name) => (loaded.find([name]) as FileNode).size)
    })
    expect(sizes).toEqual([
      [3, 3],
      [5, 5],
    ])
    expect([before.mtime, after.mtime]).toEqual([1, 1])
  },
)

interface LinkModel {
  text: string
  readonly ino: number
}

function textsOf(model: ReadonlyMap<string, LinkModel>): Map<string, string> {
  return new Map([...model].map(([path, { text }]) => [path, text]))
}

function fileOf({ text, ino }: LinkModel): FileNode {
  const bytes = Buffer.from(text)
  return new FileNode({ ...attributes, ino, mode: 0o644 }, bytes.length, BlobRef.of(bytes))
}

async function pagesOf(dir: Dir, { loader }: Tree): Promise<readonly Page[]> {
  const pages = await whenLoaded(() => dir.pages ?? loader.loadDir(dir))
  for (const page of pages) await whenLoaded(() => page.names ?? loader.loadPage(page))
  return pages
}

async function differences(stored: StoredTrees, before: Dir, after: Dir): Promise<string[]> {
  const found: string[] = []
  for (const step of new TreeDiff(stored.ids, stored.loader).compare(before, after)) {
    if (step instanceof Promise) await step
    else if (step !== undefined)
      found.push(`${step.before === undefined ? '+' : step.after === undefined ? '-' : '~'} ${step.path}`)
  }
  return found
}

/** Trees in a store that reads synchronously, or by faults. */
async function storedTrees(syncReads: boolean) {
  const store = await memoryStorage({ durable: true, syncReads }).open()
  const nodes = new NodeCache(1)
  const loader = new StoreLoader(store, nodes)
  const ids = new ContentIds(new ContentStore(store, environment, 1), loader)
  return {
    loader,
    ids,
    empty: () => new Tree(emptyRoot(attributes), loader),
    hash: (root: Dir) => runInSlices(hashTree(root, ids, loader), environment),
    /** Like a transaction: undoes a step that faults and tries it again. */
    async change(tree: Tree, step: () => void): Promise<void> {
      if (syncReads) return step()
      await whenLoaded(() => {
        const before = tree.freeze()
        try {
          step()
        } catch (thrown) {
          tree.reset(before)
          expect(thrown).toBeInstanceOf(Fault)
          throw thrown
        }
      })
    },
    /** Writes a tree and loads it as new nodes. */
    async reload(root: Dir): Promise<Tree> {
      const put: [string, string][] = []
      const write = (address: string, json: string): undefined => void put.push([`n${address}`, json])
      const flushed: Flushed[] = []
      await runInSlices(flushTree(root, { write, addressed: flushed, files: [] }), environment)
      await store.commit({ put })
      for (const { node, length } of flushed) nodes.add(node, length)
      const json = JSON.stringify(encodeNode(root, () => root.address!))
      return new Tree(decodeNode(JSON.parse(json)) as Dir, loader)
    },
  }
}

type StoredTrees = Awaited<ReturnType<typeof storedTrees>>

function file(text: string): FileNode {
  const bytes = Buffer.from(text)
  return new FileNode({ ...attributes, mode: 0o644 }, bytes.length, BlobRef.of(bytes))
}

function putAt(tree: Tree, path: string[], text: string): void {
  for (let depth = 1; depth < path.length; depth++) {
    const parent = path.slice(0, depth)
    const node = tree.find(parent)
    if (node instanceof Dir) continue
    if (node !== undefined) tree.remove(parent, 2)
    tree.makeDir(parent, attributes)
  }
  if (tree.find(path) instanceof Dir) tree.remove(path, 2)
  tree.put(path, file(text), 2)
}

function randomPath(random: () => number): string[] {
  const all = [...plainNames, ...exoticNames.slice(0, 12), ...ending.slice(0, 30)]
  return Array.from({ length: 1 + (random() % 3) }, () => all[random() % all.length]!)
}

async function contentsOf(root: Dir, { ids, loader }: StoredTrees): Promise<Map<string, string>> {
  const contents = new Map<string, string>()
  const walk = (dir: Dir, path: string): void => {
    for (const page of dir.pages!) {
      for (const [index, name] of page.names!.entries()) {
        const node = page.nodes[index]!
        contents.set(`${path}/${name}`, node instanceof FileNode ? ids.contentHash(node) : 'directory')
        if (node instanceof Dir) walk(node, `${path}/${name}`)
      }
    }
  }
  await checkTree(root, loader)
  walk(root, '')
  return contents
}

function kindOf(content: string): string {
  return content === 'directory' ? content : 'file'
}

function pathOf(line: string): string {
  return line.slice(2)
}

function comparePaths(a: string, b: string): number {
  const [left, right] = [a.split('/'), b.split('/')]
  for (let i = 0; i < Math.min(left.length, right.length); i++) {
    const order = compareBytes(left[i]!, right[i]!)
    if (order !== 0) return order
  }
  return left.length - right.length
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list
    .map((value) => [random(), value] as const)
    .sort(([a], [b]) => a - b)
    .map(([, value]) => value)
}
