import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { serveCommand } from '../support/command.js'

test('the quick start with curl works as documented', async () => {
  const page = await readFile(new URL('../../docs/cli.md', import.meta.url), 'utf8')
  const script = Array.from(page.matchAll(/```sh curl\n([\s\S]*?)```/gu), ([, part]) => part).join('')
  const served = await serveCommand(['--storage', 'memory'], { env: { FORKSPACE_TOKEN: 'quick-start' } })
  try {
    const { PATH = '' } = process.env
    const here = script.replace('http://127.0.0.1:8080', served.url)
    const { stdout } = await promisify(execFile)('sh', ['-ec', here], {
      env: { PATH, FORKSPACE_TOKEN: 'quick-start' },
    })
    expect(stdout).toMatch(/^\{\}\{"nodes":\[\{"path":"\/hello\.txt",.*"sizeBytes":"5"/u)
    expect(stdout).toMatch(/\}\{\}10\n\{"jobId":/u)
  } finally {
    await served.stop()
  }
})
