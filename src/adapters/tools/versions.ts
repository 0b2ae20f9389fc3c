import { Buffer } from 'node:buffer'
import { z } from 'zod'
import type { Change, MergePolicy, MergePolicyRule, MergeResult } from '../../engine/index.js'
import { limits } from './limits.js'
import { defineTool, type ToolOutput } from './tool.js'
import type { WorkspaceTool } from './tool-types.js'
import { absolute, type Workspace } from './workspace.js'

const nothing = z.strictObject({})
const workspaceId = z.string().describe('The id of a fork, or main.')

function checkpointTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'checkpoint',
    description: 'Names the present state of all files, so that restore can bring it back.',
    schema: z.strictObject({ label: z.string().min(1).describe('The name, unique in the workspace.') }),
    hints: {},
    async run({ label }, { session }) {
      const { id } = await session.checkpoint({ checkpointLabel: label })
      return { text: `Checkpoint ${label} has been created.`, data: { checkpointId: id, label } }
    },
  })
}

function restoreTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'restore',
    description: 'Brings back the state of a checkpoint: all files, or only some paths. undo takes it back.',
    schema: z.strictObject({
      label: z.string().min(1).describe('The name of the checkpoint.'),
      paths: z.array(z.string()).max(1000).optional().describe('Only these files and directories.'),
      dry_run: z.boolean().optional().describe('true: says what would change, and changes nothing.'),
    }),
    hints: { destructive: true, idempotent: true },
    async run({ label, paths, dry_run: dryRun = false }, { session }) {
      const { changes, isComplete } = await session.restore({
        from: { checkpointLabel: label },
        ...(paths !== undefined && { paths: paths.map(absolute) }),
        dryRun,
        listChanges: true,
      })
      return {
        text: `${dryRun ? 'The restore would change' : 'The restore changed'} ${listed(changes, isComplete)}`,
        data: { changes: changes.map((change) => ({ ...change })), isComplete },
      }
    },
  })
}

function undoTool(workspace: Workspace, direction: 'undo' | 'redo'): WorkspaceTool {
  return defineTool(workspace, {
    name: direction,
    description:
      direction === 'undo'
        ? 'Takes back the newest changes, whichever tool or command made them.'
        : 'Repeats the changes that undo took back last.',
    schema: z.strictObject({
      count: z.int().min(1).max(1000).optional().describe('The number of changes; 1 by default.'),
      by: z
        .enum(['event', 'group'])
        .optional()
        .describe('event, the default: single changes. group: all changes of a turn count as one.'),
      dry_run: z.boolean().optional().describe('true: says what would change, and changes nothing.'),
    }),
    hints: { destructive: true },
    async run({ count = 1, by = 'event', dry_run: dryRun = false }, { session }) {
      const done = await session[direction]({ count, by, dryRun, listChanges: true })
      const units = `${done.count} ${done.count === 1 ? 'change' : 'changes'}`
      const verb = `${dryRun ? 'would be ' : ''}${direction}ne`
      return {
        text:
          done.count === 0
            ? `There is nothing to ${direction}.`
            : `${units} ${verb}: ${listed(done.changes, done.isComplete)}`,
        data: { count: done.count, changes: done.changes.map((change) => ({ ...change })) },
      }
    },
  })
}

function diffTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'diff',
    description:
      'Shows what changed, as a unified diff: since the workspace began, since a checkpoint, or from a fork.',
    schema: z.strictObject({
      checkpoint: z.string().optional().describe('The name of a checkpoint to compare with.'),
      workspace: workspaceId.optional().describe('A fork to compare with, or main.'),
    }),
    hints: { readOnly: true, idempotent: true },
    async run({ checkpoint, workspace: other }, { session }) {
      const against =
        checkpoint !== undefined
          ? { checkpointLabel: checkpoint }
          : other === undefined
            ? ('base' as const)
            : { sessionId: workspace.find(other).id }
      const parts: Uint8Array[] = []
      let length = 0
      for await (const part of session.diff(against).patch()) {
        parts.push(part)
        length += part.length
        if (length > limits.resultLength) break
      }
      const text = Buffer.concat(parts).toString()
      return { text: text === '' ? 'There are no changes.' : text, data: {} }
    },
  })
}

function forkTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'fork',
    description:
      'Creates a copy of the workspace, at once and whatever its size, to try something. Work in it after ' +
      'switch_workspace; bring its changes back with merge.',
    schema: z.strictObject({ label: z.string().optional().describe('What the fork is for.') }),
    hints: {},
    async run({ label }) {
      const fork = await workspace.fork(label === undefined ? {} : { metadata: { label } })
      return { text: `Fork ${fork.id} has been created.`, data: { workspace: fork.id } }
    },
  })
}

function switchTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'switch_workspace',
    description: 'Makes all tools work on a fork, or on main again.',
    schema: z.strictObject({ workspace: workspaceId }),
    hints: { idempotent: true },
    run({ workspace: id }) {
      workspace.switchTo(workspace.find(id))
      return Promise.resolve({
        text: `The tools work on ${id} now.`,
        data: { workspace: workspace.current.id },
      })
    },
  })
}

function listTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'list_workspaces',
    description: 'Lists main and the forks, and says which one the tools work on.',
    schema: nothing,
    hints: { readOnly: true, idempotent: true },
    run() {
      const ids = ['main', ...workspace.forks.keys()]
      const current = workspace.current === workspace.main ? 'main' : workspace.current.id
      const text = ids.map((id) => (id === current ? `${id} (current)` : id)).join('\n')
      return Promise.resolve({ text, data: { workspaces: ids, current } })
    },
  })
}

function deleteForkTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'delete_fork',
    description: 'Deletes a fork that is no longer needed.',
    schema: z.strictObject({ workspace: workspaceId }),
    hints: { destructive: true },
    async run({ workspace: id }) {
      await workspace.deleteFork(id)
      return { text: `Fork ${id} has been deleted.`, data: { workspace: id } }
    },
  })
}

function mergeTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'merge',
    description:
      'Brings the changes of another workspace into the current one, as one change. With conflicts it changes nothing, ' +
      'and lists them, unless on_conflict says which side to take.',
    schema: z.strictObject({
      workspace: workspaceId,
      on_conflict: z
        .enum(['ours', 'theirs', 'union'])
        .optional()
        .describe('ours: keep the current side. theirs: take the other. union: the lines of both.'),
      dry_run: z.boolean().optional().describe('true: says what would change, and changes nothing.'),
    }),
    hints: { destructive: true },
    async run({ workspace: id, on_conflict: given, dry_run: dryRun = false }, { session }) {
      const policy: MergePolicy = given ?? 'fail'
      const source = { sessionId: workspace.find(id).id }
      const policies: MergePolicyRule[] = [{ glob: '**', policy }]
      const preview = await session.merge(source, {
        policies: policy === 'fail' ? [] : policies,
        dryRun: true,
      })
      if (dryRun || preview.conflicts.length > 0) return describeMerge(preview, given, true)
      // With the policy `fail`, a conflict that arose since the preview is an error, and changes nothing.
      const merge = await session.merge(source, { policies })
      // No tool resolves conflicts.
      if (merge.conflicts.length > 0) await session.conflicts.abort()
      return describeMerge(merge, given, false)
    },
  })
}

function describeMerge(merge: MergeResult, onConflict: MergePolicy | undefined, dryRun: boolean): ToolOutput {
  const { changes, changeCount, conflicts } = merge
  const data = {
    merged: merge.merged,
    changes: changes.slice(0, limits.shownChanges).map((change) => ({ ...change })),
    changeCount,
    conflicts: conflicts.map(({ path, kind }) => ({ path, kind })),
  }
  if (conflicts.length > 0) {
    const lines = conflicts.map(({ path, kind }) => `${kind} ${path}`)
    const advice =
      onConflict === 'union'
        ? 'union merges only the lines of texts. Repeat with on_conflict: ours or theirs'
        : 'Repeat with on_conflict'
    const text = `Nothing was merged: both sides changed these paths. ${advice}, or edit one side first.`
    return { text: `${text}\n${lines.join('\n')}`, data }
  }
  if (!merge.merged) return { text: 'There is nothing to merge.', data }
  return {
    text: `The merge ${dryRun ? 'would change' : 'changed'} ${listed(changes, changes.length === changeCount)}`,
    data,
  }
}

function historyTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'history',
    description: 'Lists the changes of a file, newest first: when, by whom, and by which operation.',
    schema: z.strictObject({ file_path: z.string().describe('The path of the file, such as /src/a.ts.') }),
    hints: { readOnly: true, idempotent: true },
    async run({ file_path: path }, { session }) {
      const { changes } = await session.history({ path: absolute(path), pageSize: limits.historyEntries })
      const lines = changes.map(
        ({ timestamp, principal, change, eventType }) => `${timestamp} ${principal} ${change} ${eventType}`,
      )
      const text = lines.length === 0 ? `${path} has not changed in this workspace.` : lines.join('\n')
      return { text, data: { changes: changes.map((change) => ({ ...change })) } }
    },
  })
}

/** The tools for versions: checkpoint, restore, undo, redo, diff, fork, merge and history. */
export function versionTools(workspace: Workspace): WorkspaceTool[] {
  return [
    checkpointTool(workspace),
    restoreTool(workspace),
    undoTool(workspace, 'undo'),
    undoTool(workspace, 'redo'),
    diffTool(workspace),
    forkTool(workspace),
    switchTool(workspace),
    listTool(workspace),
    deleteForkTool(workspace),
    mergeTool(workspace),
    historyTool(workspace),
  ]
}

function listed(changes: readonly Change[], isComplete: boolean): string {
  if (changes.length === 0) return 'nothing.'
  const shown = changes.slice(0, limits.shownChanges).map(({ change, path }) => `${change} ${path}`)
  const more = !isComplete || changes.length > shown.length ? '\n[and more]' : ''
  return `these paths:\n${shown.join('\n')}${more}`
}
