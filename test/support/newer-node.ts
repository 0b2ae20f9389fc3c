/** The calls of node:fs that versions of Node after 20 changed. `session.fs` behaves like Node 20 on every version. */
const changed: readonly (readonly [since: number, calls: RegExp])[] = [
  [22, /^(.* )?cp\b/],
  [22, /^promise read (position|length) /],
  [22, /^readdir with types$/],
  [24, /^forced and recursive rm /],
  [24, /^lines with other separators$/],
  [24, /^statfs checks the path$/],
  [24, /^callbacks that throw$/],
  [26, /^rmdirSync with an undefined option$/],
  [26, /^readFile of a directory$/],
]

const version = Number.parseInt(process.versions.node, 10)

/** Whether the running Node differs from Node 20 in this call, so that it cannot be compared with a session. */
export function isNewerCall(call: string): boolean {
  return changed.some(([since, calls]) => version >= since && calls.test(call))
}
