import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Checkout, ImportJob, Session } from '../../src/index.js'
import { GitRepository } from '../support/git-repository.js'
import {
  expectFiles,
  filesOf,
  modelOf,
  reasonAmong,
  type CollectionWorld,
  type Dice,
  type ModelSession,
} from './collection-world.js'

/** Works on its own sessions while other actors work on theirs and collections run. */
export type Actor = (world: CollectionWorld, dice: Dice, steps: number) => Promise<void>

const author = { name: 'Ada Author', email: 'ada@example.org' }
const names = ['a', 'b', 'c', 'd', 'e', 'f']

function pathIn(dice: Dice): string {
  const name = dice.pick(names)!
  return dice.chance(50) ? `/${name}` : `/${name}-dir/${dice.pick(names)!}${dice.below(8)}`
}

async function own(
  world: CollectionWorld,
  ids: Set<string>,
  dice: Dice,
): Promise<[Session, ModelSession] | undefined> {
  const id = dice.pick([...ids].filter((one) => world.sessions.has(one)))
  return id === undefined ? undefined : [await world.engine.sessions.open(id), world.sessions.get(id)!]
}

async function editFiles(session: Session, model: ModelSession, dice: Dice): Promise<void> {
  const kind = dice.below(12)
  const known = dice.pick(model.files.keys())
  if (kind < 5 || known === undefined) {
    const [path, content] = [pathIn(dice), dice.text()]
    await session.files.write({ path, content })
    model.files.set(path, content)
  } else if (kind < 6) {
    await session.files.delete({ path: known })
    model.files.delete(known)
  } else if (kind < 7) {
    const added = `+${dice.below(1e9)}`
    await session.files.append({ path: known, content: added })
    model.files.set(known, model.files.get(known)! + added)
  } else if (kind < 8) {
    const before = Buffer.from(model.files.get(known)!)
    const data = Buffer.from(`patched ${dice.below(1e9)}`)
    const offset = dice.below(Math.max(1, before.length - data.length))
    await session.files.patchSegments({
      mutations: [{ path: known, segments: [{ data: { offset, content: data } }] }],
    })
    const after = Buffer.alloc(Math.max(before.length, offset + data.length))
    before.copy(after)
    data.copy(after, offset)
    model.files.set(known, after.toString())
  } else if (kind < 10 && (await borrow(session, model, known, dice))) {
    return
  } else if (kind < 11) {
    // The content is stored before its event.
    const content = dice.text().repeat(40).slice(0, 6_000_000)
    await session.files.write({ path: '/large', content })
    model.files.set('/large', content)
  } else {
    const to = `/copy${dice.below(5)}`
    await session.fs.promises.copyFile(known, to)
    model.files.set(to, model.files.get(known)!)
  }
}

/** Copies a range of an existing file into another one; returns false if the file has no blob of its own. */
async function borrow(session: Session, model: ModelSession, from: string, dice: Dice): Promise<boolean> {
  const { extents } = await session.files.getCasExtents({ path: from })
  const extent = dice.pick(extents)
  if (extent === undefined || extent.hash === '') return false
  const { hash, length, offset, casOffset } = extent
  const path = `/borrowed${dice.below(3)}`
  await session.files.patchSegments({
    mutations: [
      { path, segments: [{ borrowed: { offset: 0, length, hash, casOffset } }], logicalSize: length },
    ],
  })
  const bytes = Buffer.from(model.files.get(from)!).subarray(offset, offset + length)
  model.files.set(path, bytes.toString())
  return true
}

async function useServices(session: Session, model: ModelSession, dice: Dice): Promise<void> {
  const kind = dice.below(9)
  const known = dice.pick(model.files.keys())
  if (kind < 3) {
    const entries = Array.from({ length: 1 + dice.below(4) }, () => ({
      key: `k${dice.below(8)}`,
      value: dice.text(),
    }))
    await session.cache.batchSet({ entries })
    for (const { key, value } of entries) model.cache.set(key, value)
  } else if (kind === 3) {
    const key = `k${dice.below(8)}`
    await session.cache.delete({ key })
    model.cache.delete(key)
  } else if (kind === 4) {
    const [secretName, secretValue] = [`s${dice.below(4)}`, dice.text().slice(0, 2000)]
    await session.secrets.put({ secretName, secretValue })
    model.secrets.set(secretName, secretValue)
  } else if (kind === 5 && known !== undefined) {
    const expectedContentHash = await session.files.contentHash(known)
    await session.annotations.add({ filePath: known, expectedContentHash, comment: 'a note' })
    model.annotations++
  } else if (kind === 6) {
    await session.approvals.request({ details: { summary: 'please' } })
    model.approvals++
  } else if (kind === 7) {
    const path = `/lock/${dice.below(1e9)}`
    await session.fileLocks.lock({ path, timeoutSeconds: 10_000_000 })
    model.locks++
  } else {
    await session.bus.publish({ topic: 't', payload: Buffer.from(dice.text().slice(0, 5000)) })
  }
}

/** Keeps handles, streams and diffs open after their files are changed. */
async function readSlowly(session: Session, model: ModelSession, dice: Dice): Promise<void> {
  const known = dice.pick(model.files.keys())
  if (known === undefined) return
  const content = model.files.get(known)!
  const handle = await session.fs.promises.open(known)
  const fork = await session.fork()
  const label = dice.pick(model.checkpoints.keys())
  const diff = label === undefined ? undefined : session.diff({ checkpointLabel: label })
  const tar = fork.exportTar()
  await fork.delete()
  await session.files.delete({ path: known })
  model.files.delete(known)
  if (label !== undefined && dice.chance(50)) {
    await session.deleteCheckpoint({ checkpointLabel: label })
    model.checkpoints.delete(label)
  }
  for (let turns = dice.below(200); turns > 0; turns--) await nextTurn()
  expectFiles(new Map([[known, await handle.readFile('utf8')]]), new Map([[known, content]]), 'an open file')
  await handle.close()
  if (diff !== undefined) await diff.paths()
  let bytes = 0
  for await (const piece of tar) {
    bytes += piece.byteLength
    if (dice.chance(10)) await nextTurn()
  }
  if (bytes < content.length) throw new Error('the archive is too short')
}

/**
 * Changes files, creates and deletes checkpoints, forks and deletes sessions, and uses the other services of sessions.
 */
export function sessionActor(): Actor {
  const ids = new Set<string>()
  return async (world, dice, steps) => {
    for (let step = 0; step < steps; step++) {
      await dice.pause()
      const found = await own(world, ids, dice)
      const kind = dice.below(100)
      if (found === undefined || (kind < 4 && ids.size < 6)) {
        const files = Object.fromEntries(Array.from({ length: 6 }, () => [`/${dice.below(50)}`, dice.text()]))
        const session = await world.engine.sessions.create({ files })
        ids.add(world.add(session, new Map(Object.entries(files))).id)
        continue
      }
      const [session, model] = found
      if (kind < 45) await editFiles(session, model, dice)
      else if (kind < 60) await useServices(session, model, dice)
      else if (kind < 70) {
        const label = `l${dice.below(1e9)}`
        await session.checkpoint({ checkpointLabel: label })
        model.checkpoints.set(label, new Map(model.files))
      } else if (kind < 76) {
        const label = dice.pick(model.checkpoints.keys())
        if (label === undefined) continue
        await session.restore({ checkpointLabel: label })
        model.files = new Map(model.checkpoints.get(label))
      } else if (kind < 80) {
        const keepLast = dice.below(4)
        await session.pruneCheckpoints({ keepLast })
        const labels = [...model.checkpoints.keys()]
        for (const label of labels.slice(0, Math.max(0, labels.length - keepLast)))
          model.checkpoints.delete(label)
      } else if (kind < 88) {
        const label = dice.chance(50) ? dice.pick(model.checkpoints.keys()) : undefined
        const fork = await session.fork(label === undefined ? {} : { checkpointLabel: label })
        ids.add(world.add(fork, label === undefined ? model.files : model.checkpoints.get(label)!).id)
      } else if (kind < 94) await readSlowly(session, model, dice)
      else if (ids.size > 2) {
        world.sessions.delete(model.id)
        ids.delete(model.id)
        await session.delete()
      }
    }
  }
}

/** Writes bundles while their sessions and checkpoints are deleted, and reads them during collections. */
export function bundleActor(): Actor {
  return async (world, dice, steps) => {
    for (let step = 0; step < steps / 12; step++) {
      const session = await world.engine.sessions.create()
      const model = modelOf(session.id)
      world.sessions.set(model.id, model)
      for (let i = 0; i < 12; i++) {
        await editFiles(session, model, dice)
        if (i % 3 > 0) continue
        await session.checkpoint({ checkpointLabel: `${i}` })
        model.checkpoints.set(`${i}`, new Map(model.files))
      }
      const wanted = { files: new Map(model.files), checkpoints: new Map(model.checkpoints) }
      const bundle = session.exportBundle()
      if (dice.chance(50)) {
        await session.pruneCheckpoints({ keepLast: 1 })
        for (const label of ['0', '3', '6']) model.checkpoints.delete(label)
        await editFiles(session, model, dice)
      }
      if (dice.chance(30)) {
        world.sessions.delete(model.id)
        await session.delete()
      }
      for (let turns = dice.below(100); turns > 0; turns--) await nextTurn()
      const pieces: Uint8Array[] = []
      const reason = await reasonAmong(
        ['SESSION_NOT_FOUND'],
        (async () => {
          for await (const piece of bundle) {
            pieces.push(piece)
            await dice.pause()
          }
        })(),
      )
      if (reason === '') {
        const copy = await world.engine.sessions.importBundle(slowly(Buffer.concat(pieces), dice))
        const copied = world.add(copy, wanted.files)
        for (const [label, files] of wanted.checkpoints) copied.checkpoints.set(label, files)
        if (dice.chance(50)) await editFiles(copy, copied, dice)
        if (dice.chance(60)) {
          world.sessions.delete(copied.id)
          await copy.delete()
        }
      }
      if (!world.sessions.delete(model.id)) continue
      await session.delete()
    }
  }
}

async function* slowly(bytes: Buffer, dice: Dice): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += 40_000) {
    yield bytes.subarray(at, at + 40_000)
    await dice.pause()
  }
}

/** Creates sessions that expire unused. */
export function expiringActor(): Actor {
  return async (world, dice, steps) => {
    for (let step = 0; step < steps / 10; step++) {
      const session = await world.engine.sessions.create({ ttlSeconds: 60 })
      const model = modelOf(session.id)
      for (let i = 0; i < 4; i++) {
        await editFiles(session, model, dice)
        await useServices(session, model, dice)
      }
      await session.checkpoint({ checkpointLabel: 'one' })
      world.advance(30_000)
      await editFiles(session, model, dice)
      world.advance(20_000)
      expectFiles(await filesOf(session), model.files, 'a session that expires')
      world.advance(61_000)
      for (let turns = dice.below(50); turns > 0; turns--) await nextTurn()
      if (dice.chance(50)) {
        const reason = await reasonAmong(['SESSION_NOT_FOUND'], session.files.list({ path: '/' }))
        if (reason === '') throw new Error('a session outlived its time')
      }
    }
  }
}

/** Imports and refreshes a repository, commits to it and promotes sessions. */
export function gitActor(directory: string): Actor {
  let repository: GitRepository | undefined
  let sourceId = ''
  const tree = new Map<string, string>()
  /** Files by revision. */
  const revisions = new Map<string, ReadonlyMap<string, string>>()
  const push = (dice: Dice): void => {
    const entries: [string, string, string | null][] = []
    for (let i = 0; i < 5; i++) {
      const path = `src-${dice.pick(names)!}/${dice.pick(names)!}/${dice.below(20)}`
      if (tree.has(path) && dice.chance(30)) {
        entries.push(['100644', path, null])
        tree.delete(path)
      } else {
        const content = dice.text()
        entries.push(['100644', path, content])
        tree.set(path, content)
      }
    }
    const commitId = repository!.commitFiles(entries, 'refs/heads/main', `n ${dice.below(1e9)}`)
    revisions.set(commitId, new Map([...tree].map(([path, content]) => [`/${path}`, content])))
  }
  const done = async (world: CollectionWorld, started: Promise<ImportJob>): Promise<string> =>
    (await world.engine.sources.waitForJob(await started)).revisionId
  return async (world, dice, steps) => {
    const { sources, sessions } = world.engine
    if (repository === undefined) {
      repository = GitRepository.create(join(directory, 'origin.git'))
      push(dice)
    }
    if (sourceId === '' || dice.chance(30))
      ({ sourceId } = await sources.create({
        displayName: 'git',
        gitRepository: { path: repository.path, defaultRef: 'main' },
      }))
    for (let step = 0; step < steps / 15; step++) {
      if (dice.chance(60)) push(dice)
      const started = step === 0 ? sources.startImport(sourceId) : sources.refresh(sourceId)
      started.catch(() => undefined)
      if (dice.chance(15)) {
        // Cancels the job at a random point.
        const job = await started
        for (let turns = dice.below(60); turns > 0; turns--) await nextTurn()
        await sources.abortJob(job).catch(() => undefined)
      }
      const revisionId = await done(world, sources.refresh(sourceId))
      const session = await sessions.create({ sourceRef: { sourceId, revisionId } })
      const model = world.add(session, revisions.get(revisionId))
      expectFiles(await filesOf(session), model.files, `revision ${revisionId}`)
      for (let i = 0; i < 4; i++) await editFiles(session, model, dice)
      await session.checkpoint({ checkpointLabel: 'edited' })
      model.checkpoints.set('edited', new Map(model.files))
      await session.commit({ message: 'kept here', author })
      if (dice.chance(50)) {
        await editFiles(session, model, dice)
        const files = new Map(model.files)
        const branchName = `b${dice.below(1e9)}`
        const { commitId } = await session.commit({ message: 'pushed', author, gitBranch: { branchName } })
        revisions.set(commitId, files)
        const fetched = await done(world, sources.refresh(sourceId, { gitRef: branchName }))
        const again = await sessions.create({ sourceRef: { sourceId, revisionId: fetched } })
        expectFiles(await filesOf(again), files, `pushed ${commitId}`)
        await again.delete()
      }
      if (dice.chance(40)) {
        const files = new Map(model.files)
        const promoted = await done(world, sources.promoteSession(sourceId, { sessionId: session.id }))
        const again = await sessions.create({ sourceRef: { sourceId, revisionId: promoted } })
        expectFiles(await filesOf(again), files, `promoted ${promoted}`)
        await again.delete()
      }
      if (dice.chance(70)) {
        world.sessions.delete(model.id)
        await session.delete()
      }
      const earlier = dice.pick(revisions.keys())!
      const reason = await reasonAmong(
        ['REVISION_NOT_FOUND'],
        (async () => {
          const old = await sessions.create({ sourceRef: { sourceId, revisionId: earlier } })
          expectFiles(await filesOf(old), revisions.get(earlier)!, `earlier ${earlier}`)
          await old.delete()
        })(),
      )
      if (reason !== '') continue
    }
    repository.fsck()
  }
}

/** Scans a directory, writes sessions to another one and imports the changes made there. */
export function hostActor(): Actor {
  let sourceId = ''
  let time = 1_700_000_000
  const seen = new Map<string, string>()
  return async (world, dice, steps) => {
    const from = join(world.hostRoot, 'from')
    const to = join(world.hostRoot, 'to')
    mkdirSync(from, { recursive: true })
    const { sources, sessions } = world.engine
    if (sourceId === '')
      ({ sourceId } = await sources.create({ displayName: 'host', hostPath: { path: from } }))
    let checkout: Checkout | undefined
    for (let step = 0; step < steps / 15; step++) {
      for (let i = 0; i < 3; i++) {
        const [directory, content] = [`src-${dice.pick(names)!}`, `${++time} ${dice.text()}`]
        mkdirSync(join(from, directory), { recursive: true })
        const path = `/${directory}/${dice.below(10)}`
        writeFileSync(join(from, path), content)
        seen.set(path, content)
      }
      const known = dice.pick(seen.keys())!
      rmSync(join(from, known))
      seen.delete(known)
      const job = await sources.waitForJob(await sources.refresh(sourceId))
      const session = await sessions.create({ sourceRef: { sourceId, revisionId: job.revisionId } })
      const model = world.add(session, seen)
      expectFiles(await filesOf(session), seen, 'a directory that was scanned')
      await editFiles(session, model, dice)
      checkout = await session.checkout(to, { force: true })
      await editFiles(session, model, dice)
      await checkout.update()
      const wanted = dice.pick([...model.files.keys()].filter((path) => statSync(to + path).isFile()))
      if (wanted !== undefined) {
        const content = `${++time} changed there ${dice.text()}`
        writeFileSync(to + wanted, content)
        await checkout.sync()
        model.files.set(wanted, content)
      }
      expectFiles(await filesOf(session), model.files, 'a checkout')
      if (dice.chance(80)) {
        world.sessions.delete(model.id)
        await session.delete()
      }
      if (dice.chance(20)) for (const name of readdirSync(to)) rmSync(join(to, name), { recursive: true })
    }
  }
}
