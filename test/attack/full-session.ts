import type { Session } from '../../src/index.js'

/** A directory with a path of about 3.5 KB. */
export const directory = `/${'d'.repeat(250)}`.repeat(14)
export const content = { file: '/large', text: '/text', key: 'large', checkpoint: 'newest' } as const

/** Fills a session with large contents, long names and large records. */
export async function fillSession(session: Session): Promise<void> {
  const write = (
    path: string,
    bytes: string | Uint8Array,
  ): { write: { path: string; content: typeof bytes } } => ({
    write: { path, content: bytes },
  })
  const files = Array.from({ length: 3000 }, (_, index) => write(`${directory}/${index}`, `${index}`))
  await session.files.batch(files)
  const lines = Array.from({ length: 10_000 }, (_, index) => `${'x'.repeat(60)}${index}\n`).join('')
  await session.files.batch([write(content.file, new Uint8Array(12 * 2 ** 20)), write(content.text, lines)])
  await session.files.setXattr({ path: content.text, name: 'user.large', value: new Uint8Array(2 ** 16) })
  for (let index = 0; index < 500; index++)
    await session.files.createSymlink({ linkPath: `${directory}/link${index}`, target: 't'.repeat(4000) })
  await session.cache.put({ key: content.key, value: new Uint8Array(8 * 2 ** 20) })
  for (let index = 0; index < 1000; index++)
    await session.cache.put({ key: `${index}`.padEnd(1000, 'k'), value: 'x' })
  const { contentHash: expectedContentHash } = await session.files.stat({
    path: content.text,
    includeContentHash: true,
  })
  for (let index = 0; index < 100; index++) {
    await session.approvals.request({ details: { summary: 's'.repeat(60_000) } })
    await session.annotations.add({
      filePath: content.text,
      expectedContentHash,
      comment: 'c'.repeat(60_000),
    })
    await session.checkpoint({ metadata: { note: 'm'.repeat(4000) } })
  }
  await session.checkpoint({ checkpointLabel: content.checkpoint })
}
