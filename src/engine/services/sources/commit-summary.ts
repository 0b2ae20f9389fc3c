import { itemAt, onlyItem } from '../../base/present.js'
import { limits } from '../../base/limits.js'
import type { Core } from '../../session/core.js'
import { describeChange, treeChanges, type Change } from '../../session/tree-changes.js'
import type { Dir } from '../../tree/node.js'

/** A description of a session's changes. Its two fields fit the `details` of a request for approval. */
export interface CommitSummary {
  /** A text in the form of a commit message: a title, then the paths that were added, changed and removed. */
  readonly summary: string
  /** Absolute paths in the session of changed files and symlinks, in manifest order; at most 10,000. */
  readonly changedFiles: string[]
}

const verbs = { added: 'Add', removed: 'Remove', modified: 'Change' } as const

/** Describes the changes between two trees. It uses only the paths. */
export async function summarize(core: Core, before: Dir, after: Dir): Promise<CommitSummary> {
  const changedFiles: string[] = []
  const counts = { added: 0, removed: 0, modified: 0 }
  const named: Record<Change['change'], string[]> = { added: [], removed: [], modified: [] }
  for await (const change of treeChanges(core, before, after)) {
    const { path, change: how, kind } = describeChange(change)
    if (kind === 'directory') continue
    counts[how]++
    if (named[how].length < limits.summaryPaths) named[how].push(path)
    if (changedFiles.length < limits.changedFiles) changedFiles.push(path)
  }
  const total = counts.added + counts.removed + counts.modified
  if (total === 0) return { summary: 'No changes', changedFiles }
  const kinds = (Object.keys(verbs) as Change['change'][]).filter((how) => counts[how] > 0)
  const only = onlyItem(kinds)
  const verb = only === undefined ? 'Change' : verbs[only]
  if (total === 1) return { summary: `${verb} ${itemAt(changedFiles, 0)}`, changedFiles }
  const title = `${verb} ${total} files`
  const sections = kinds.map((how) => {
    const rest = counts[how] - named[how].length
    const lines = named[how].map((path) => `- ${path}`)
    if (rest > 0) lines.push(`- and ${rest} more`)
    return `${how.charAt(0).toUpperCase()}${how.slice(1)}:\n${lines.join('\n')}`
  })
  return { summary: [title, ...sections].join('\n\n'), changedFiles }
}
