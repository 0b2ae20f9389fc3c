import { access } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Finding } from '../../index.js'
import { Output } from './output.js'
import { printableName, printableText } from './printable.js'
import { formatBytes, startProgress } from './progress.js'
import type { World } from './world.js'

/**
 * Options of the verbs that work on the files of a store without opening it. These verbs return the exit
 * code.
 */
export interface StoreVerbOptions {
  readonly json?: boolean
}

/** Returns 0 for an intact store, and 1 if there are findings. */
export async function checkFiles(
  world: World,
  [directory]: readonly [string],
  { json = false, readData = false }: StoreVerbOptions & { readonly readData?: boolean },
): Promise<number> {
  const { checkStore } = await import('../level/index.js')
  const out = new Output(world, { json })
  const progress = await startProgress(world.stderr, `checking ${printableName(directory)}`)
  let report
  try {
    report = await checkStore(directory, {
      readData,
      onProgress: ({ readBytes }) => progress.update({ bytes: readBytes }),
    })
  } finally {
    progress.stop()
  }
  if (json) await out.line('', report)
  else {
    for (const finding of report.findings) await out.line(describe(finding), '')
    const { found, findings, sessions, events, nodes, blobs, readBytes } = report
    if (found > findings.length) await out.line(`… and ${found - findings.length} more`, '')
    for (const note of report.notes) await out.line(`note: ${printableText(note)}`, '')
    const looked = `${count(sessions, 'session')}, ${count(events, 'event')}, ${count(nodes, 'node')}, ${count(blobs, 'blob')}`
    const read = readData ? `, ${formatBytes(readBytes)} of contents read` : ''
    await out.line(`${found === 0 ? 'intact' : count(found, 'finding')}: ${looked}${read}`, '')
  }
  await out.flush()
  return report.found === 0 ? 0 : 1
}

export async function backUp(
  world: World,
  [directory, target]: readonly [string, string],
  { json = false }: StoreVerbOptions,
): Promise<number> {
  const { backupStore } = await import('../level/index.js')
  const out = new Output(world, { json })
  const progress = await startProgress(world.stderr, `copying ${printableName(directory)}`)
  let backup
  try {
    backup = await backupStore(directory, target, {
      onProgress: ({ copiedBytes }) => progress.update({ bytes: copiedBytes }),
    })
  } finally {
    progress.stop()
  }
  await out.line(`${printableName(backup.directory)}: ${formatBytes(backup.bytes)}`, backup)
  await out.flush()
  await noteKey(world, directory)
  return 0
}

/** Prints everything that was damaged or lost. Returns 0 if the store was intact, and 1 otherwise. */
export async function repairFiles(
  world: World,
  [directory, newDirectory]: readonly [string, string],
  { json = false }: StoreVerbOptions,
): Promise<number> {
  const { repairStore } = await import('../level/index.js')
  const out = new Output(world, { json })
  const progress = await startProgress(world.stderr, `repairing ${printableName(directory)}`)
  let repair
  try {
    repair = await repairStore(directory, newDirectory, {
      onProgress: ({ readBytes }) => progress.update({ bytes: readBytes }),
    })
  } finally {
    progress.stop()
  }
  const { findings, dropped, remaining, notes } = repair
  if (json) await out.line('', repair)
  else {
    for (const finding of findings) await out.line(describe(finding), '')
    for (const item of dropped) await out.line(describe({ problem: 'dropped', ...item }), '')
    for (const finding of remaining) await out.line(describe({ ...finding, problem: 'remaining' }), '')
    for (const note of notes) await out.line(`note: ${printableText(note)}`, '')
    const { sessions, rebuiltSessions, events, nodes, blobs } = repair
    const saved = `${count(sessions, 'session')} (${rebuiltSessions} rebuilt), ${count(events, 'event')}, ${count(nodes, 'node')}, ${count(blobs, 'blob')}`
    await out.line(`${printableName(repair.directory)}: ${saved}; ${dropped.length} dropped`, '')
  }
  await out.flush()
  await noteKey(world, directory)
  return dropped.length + remaining.length + findings.length === 0 ? 0 : 1
}

/**
 * Prints that the master key is not copied. With the key in the copy, readers of the copy could decrypt the
 * secrets.
 */
async function noteKey({ stderr }: World, directory: string): Promise<void> {
  const key = join(resolve(directory), 'master.key')
  const isThere = await access(key).then(
    () => true,
    () => false,
  )
  if (isThere)
    stderr.write(
      `${printableName(key)} was not copied: copy it too, because secrets cannot be read without it\n`,
    )
}

/** One line with the problem, the object, its path and session, and a message. */
function describe({
  problem,
  object,
  path,
  sessionId,
  message,
}: Omit<Finding, 'problem'> & { readonly problem: string }): string {
  const parts = [`${problem} ${printableText(object)}`]
  if (path !== undefined) parts.push(`path ${printableName(path)}`)
  if (sessionId !== undefined) parts.push(`session ${printableName(sessionId)}`)
  return `${parts.join('  ')}: ${printableText(message)}`
}

function count(number: number, name: string): string {
  return `${number.toLocaleString('en-US')} ${name}${number === 1 ? '' : 's'}`
}
