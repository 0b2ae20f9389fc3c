import { z } from 'zod'
import { absolute, defineTool, type Workspace, type WorkspaceTool } from '../tools/parts.js'
import { limits } from './limits.js'

/** Tools with which several agents, and people, work together. */
export function teamTools(workspace: Workspace): WorkspaceTool[] {
  return [lockTool(workspace), unlockTool(workspace), publishTool(workspace), approvalTool(workspace)]
}

function lockTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'lock',
    description:
      'Takes the lock of a path, so that other agents see that you work on it. It does not prevent writes, and ends ' +
      'after its time. Keep the lockId for unlock.',
    schema: z.strictObject({
      path: z.string().describe('The path, such as /src/a.ts. It need not exist.'),
      timeoutSeconds: z
        .int()
        .min(1)
        .optional()
        .describe(`Seconds until the lock ends; ${limits.lockSeconds} by default.`),
    }),
    hints: {},
    async run({ path: given, timeoutSeconds = limits.lockSeconds }, { session }) {
      const path = absolute(given)
      const { lockId } = await session.fileLocks.lock({ path, timeoutSeconds })
      return { text: `${path} is locked. The lockId is ${lockId}`, data: { path, lockId } }
    },
  })
}

function unlockTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'unlock',
    description: 'Releases a lock.',
    schema: z.strictObject({
      path: z.string().describe('The path of the lock.'),
      lockId: z.string().describe('The id that lock returned.'),
    }),
    hints: {},
    async run({ path: given, lockId }, { session }) {
      const path = absolute(given)
      await session.fileLocks.unlock({ path, lockId })
      return { text: `${path} is not locked any more.`, data: { path } }
    },
  })
}

function publishTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'publish',
    description: 'Sends a message to the other agents and programs of the workspace that follow its topic.',
    schema: z.strictObject({
      topic: z.string().describe('The topic, such as tests:done.'),
      payload: z.string().describe('The content.'),
    }),
    hints: {},
    async run({ topic, payload }, { session }) {
      await session.bus.publish({ topic, payload })
      return { text: `The message was sent to ${topic}.`, data: { topic } }
    },
  })
}

function approvalTool(workspace: Workspace): WorkspaceTool {
  return defineTool(workspace, {
    name: 'request_approval',
    description: 'Asks a person for a decision about the changes. It does not wait for the decision.',
    schema: z.strictObject({
      summary: z.string().optional().describe('What was changed, and why.'),
      changedFiles: z.array(z.string()).optional().describe('The paths of the changed files.'),
      reason: z.string().optional().describe('The kind of decision, such as COMMIT_TO_MAIN, the default.'),
    }),
    hints: {},
    async run({ summary = '', changedFiles = [], reason }, { session }) {
      const { approvalId } = await session.approvals.request({
        ...(reason !== undefined && { reason }),
        details: { summary, changedFiles: changedFiles.map(absolute) },
      })
      return { text: `Approval ${approvalId} has been requested.`, data: { approvalId } }
    },
  })
}
