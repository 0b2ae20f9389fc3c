/** Claude Code, as the Claude Agent SDK ships it, without a network and without settings of this machine. */
import { createRequire } from 'node:module'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { query, type Options, type SDKMessage, type SDKUserMessage } from '@anthropic-ai/claude-agent-sdk'

/** Whether the program is installed. A missing one is an error when FORKSPACE_REQUIRE_ALL is 1. */
export const hasClaudeCode = isInstalled()
if (!hasClaudeCode && process.env['FORKSPACE_REQUIRE_ALL'] === '1')
  throw new Error('the Claude Agent SDK has no program for this platform')

function isInstalled(): boolean {
  const { resolve } = createRequire(createRequire(import.meta.url).resolve('@anthropic-ai/claude-agent-sdk'))
  const { platform, arch } = process
  return [`${platform}-${arch}`, `${platform}-${arch}-musl`].some((name) => {
    try {
      return resolve(`@anthropic-ai/claude-agent-sdk-${name}/package.json`) !== ''
    } catch {
      return false
    }
  })
}

/** Runs a query against a server of the Messages API, and returns all of its messages. */
export async function runQuery(
  prompt: string | AsyncIterable<SDKUserMessage>,
  { url, home, ...options }: Options & { readonly url: string; readonly home: string },
): Promise<SDKMessage[]> {
  const cwd = options.cwd ?? join(home, 'work')
  await mkdir(cwd, { recursive: true })
  const messages: SDKMessage[] = []
  const running = query({
    prompt,
    options: {
      settingSources: [],
      strictMcpConfig: true,
      persistSession: false,
      model: 'claude-sonnet-4-5',
      ...options,
      cwd,
      env: {
        PATH: process.env['PATH'],
        HOME: home,
        CLAUDE_CONFIG_DIR: join(home, '.claude'),
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: 'of the test',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        DISABLE_ERROR_REPORTING: '1',
        DISABLE_TELEMETRY: '1',
      },
    },
  })
  for await (const message of running) messages.push(message)
  return messages
}
