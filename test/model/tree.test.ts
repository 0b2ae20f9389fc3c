import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Fault, whenLoaded } from '../../src/engine/base/fault.js'
import { runInSlices } from '../../src/engine/base/slices.js'
import { BlobRef } from '../../src/engine/cas/blob.js'
import { ContentStore } from '../../src/engine/cas/content.js'
import { ContentIds } from '../../src/engine/tree/content-id.js'
import { decodeNode, encodeNode } from '../../src/engine/tree/codec.js'
import { TreeDiff } from '../../src/engine/tree/diff.js'
import { flushTree } from '../../src/engine/tree/flush.js'
import { hashTree } from '../../src/engine/tree/hash.js'
import { StoreLoader } from '../../src/engine/tree/loader.js'
import { Dir, FileNode } from '../../src/engine/tree/node.js'
import { emptyRoot, Tree } from '../../src/engine/tree/tree.js'
import { memoryStorage } from '../../src/index.js'
import { fixedEnvironment, randomWords } from '../../src/testing.js'
import { compareBytes } from './model-tree.js'
import { exoticNames, numberedNames, pageEnds, plainNames } from './names.js'
import { seed, size } from './seed.js'
import { canonicalPages, checkPages, checkTree } from './tree-checks.js'

const environment = fixedEnvironment()
const attributes = { ino: 1, mode: 0o755, mtime: 1, ctime: 1, birthtime: 1 }
const ending = numberedNames('e', 400, true)
const plain = numberedNames('p', 20_000, false)

test(`pages are those of the sorted names, whatever was put and removed (FORKSPACE_SEED=${seed})`, async () => {
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
    numRuns: Math.ceil(30 * size),
    interruptAfterTimeLimit: 50_000 * size,
    markInterruptAsFailure: true,
  })
})

const byName = plain.toSorted(compareBytes)
// Each change in front of a long run cuts the whole run again, so a few thousand removals there are enough.
const awkward = [...byName.slice(0, 2000), ...byName.slice(2000).reverse()]

test.each([
  ['in random order', shuffled(plain, randomWords(seed)), shuffled(plain, randomWords(seed + 1))],
  ['in ascending order', byName, awkward],
])('a directory in which no name ends a page, %s', { timeout: 180_000 }, async (_, order, removal) => {
  const stored = await storedTrees(true)
  const tree = stored.empty()
  for (const [index, name] of order.entries()) {
    tree.put([name], file(name), 2)
    if (index % 5000 === 4999) checkPages(tree.root.pages!)
  }
  expect(tree.root.pages!.map((page) => page.names)).toEqual(canonicalPages(plain))
  expect(tree.root.pages!.length).toBe(Math.ceil(plain.length / 1024))
  // One name that ends a page moves every cut behind it, and back when it goes.
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
})

test('a directory in which every name ends a page', async () => {
  const stored = await storedTrees(true)
  const tree = stored.empty()
  const names = numberedNames('e', 2000, true)
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

test(
  'the hash of a directory of several pages is found when they are loaded by faults',
  { timeout: 5000 },
  async () => {
    const stored = await storedTrees(false)
    const tree = stored.empty()
    for (const name of ending.slice(0, 3)) tree.put([name], file(name), 2)
    const reloaded = await stored.reload(tree.freeze())
    expect(await stored.hash(reloaded.root)).toBe(await stored.hash(tree.freeze()))
  },
)

test(`a tree read back at once and by faults is the tree that was written (FORKSPACE_SEED=${seed})`, async () => {
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

test(`a diff is what comparing all paths gives (FORKSPACE_SEED=${seed})`, async () => {
  for (let round = 0; round < 20 * size; round++) {
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
    // Half of the diffs know no hash, and have to look.
    if (random() % 2 === 0) await Promise.all([stored.hash(before), stored.hash(after)])
    const found: string[] = []
    for (const step of new TreeDiff(stored.ids, stored.loader).compare(before, after)) {
      if (step instanceof Promise) await step
      else if (step !== undefined)
        found.push(`${step.before === undefined ? '+' : step.after === undefined ? '-' : '~'} ${step.path}`)
    }
    const [left, right] = [await contentsOf(before, stored), await contentsOf(after, stored)]
    const expected: string[] = []
    for (const [path, content] of left) {
      if (!right.has(path)) expected.push(`- ${path}`)
      else if (kindOf(right.get(path)!) !== kindOf(content)) expected.push(`- ${path}`, `+ ${path}`)
      else if (right.get(path) !== content) expected.push(`~ ${path}`)
    }
    for (const path of right.keys()) if (!left.has(path)) expected.push(`+ ${path}`)
    expect(found.toSorted()).toEqual(expected.toSorted())
    // A path whose kind changed is removed, with all that was below it, before it is added.
    for (const sides of ['-~', '+~']) {
      const paths = found.filter((line) => sides.includes(line.charAt(0))).map(pathOf)
      expect(paths).toEqual(paths.toSorted(comparePaths))
    }
  }
})

/** Trees over a store that reads at once, or by faults. */
async function storedTrees(syncReads: boolean) {
  const store = await memoryStorage({ durable: true, syncReads }).open()
  const loader = new StoreLoader(store)
  const ids = new ContentIds(new ContentStore(store, environment), loader)
  return {
    loader,
    ids,
    empty: () => new Tree(emptyRoot(attributes), loader),
    hash: (root: Dir) => runInSlices(hashTree(root, ids, loader), environment),
    /** As transactions do it: what faults is undone and tried again. */
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
    /** Written, and loaded again as nodes that nobody has seen. */
    async reload(root: Dir): Promise<Tree> {
      const put: [string, string][] = []
      const write = (address: string, json: string): undefined => void put.push([`n${address}`, json])
      await runInSlices(flushTree(root, write), environment)
      await store.commit({ put })
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
