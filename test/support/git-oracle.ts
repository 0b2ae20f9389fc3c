import type { GitRepository } from './git-repository.js'

/** The tree of a revision as native git lists it, in the sorted line format of TreeRecorder. */
export function nativeLines(repository: GitRepository, revision: string): string[] {
  const listed = repository.gitBytes(['ls-tree', '-r', '-t', '-z', revision]).toString('latin1')
  const entries = listed
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => {
      const [, mode = '', type = '', oid = '', name = ''] = /^(\d+) (\w+) (\w+)\t(.*)$/s.exec(line) ?? []
      return { mode, type, oid, path: `/${Buffer.from(name, 'latin1').toString()}` }
    })
  const blobs = contents(
    repository,
    entries.filter(({ type }) => type === 'blob').map(({ oid }) => oid),
  )
  return entries
    .map(({ mode, type, oid, path }) => {
      if (type === 'tree') return `dir 755 ${path}`
      if (type === 'commit') return `dir 755 ${path} user.git.gitlink=${oid}`
      const content = blobs.get(oid)!
      return mode === '120000' ? `link ${path} ${content}` : `file ${mode.slice(3)} ${path} ${content}`
    })
    .sort()
}

function contents(repository: GitRepository, oids: readonly string[]): Map<string, string> {
  const output = repository.gitBytes(['cat-file', '--batch'], { input: `${oids.join('\n')}\n` })
  const found = new Map<string, string>()
  let at = 0
  for (const oid of oids) {
    const end = output.indexOf('\n', at)
    const size = Number(output.toString('latin1', at, end).split(' ')[2])
    found.set(oid, output.toString('utf8', end + 1, end + 1 + size))
    at = end + size + 2
  }
  return found
}
