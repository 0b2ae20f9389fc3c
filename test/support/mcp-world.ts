/** Real clients of the MCP server. */
import { Client } from '@modelcontextprotocol/client'
import { InMemoryTransport, type McpServer } from '@modelcontextprotocol/server'
import type { CallToolResult } from '@modelcontextprotocol/client'

/** A client that is connected to a server in this process. */
export async function connected(server: McpServer): Promise<Client> {
  const [near, far] = InMemoryTransport.createLinkedPair()
  await server.connect(far)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(near)
  return client
}

/** The text of a result. */
export function textOf({ content }: CallToolResult): string {
  const [first] = content
  if (first?.type !== 'text') throw new Error('the result has no text')
  return first.text
}
