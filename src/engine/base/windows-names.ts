/**
 * Whether Windows does not treat a name as one name in a directory. It reads `..\x`, `C:x` and `a:b` as other
 * paths or streams, opens a device for `con` and `NUL.txt`, and drops dots and spaces at the end. The rules
 * are those of Microsoft's page "Naming Files, Paths, and Namespaces".
 */
export function isUnsafeWindowsName(name: string): boolean {
  return separators.test(name) || /[. ]$/.test(name) || devices.test(name)
}

/**
 * The first part of an absolute path that is unsafe by {@link isUnsafeWindowsName}; undefined when there is
 * none.
 */
export function unsafeWindowsPart(path: string): string | undefined {
  return path
    .split('/')
    .slice(1)
    .find((part) => isUnsafeWindowsName(part))
}

// oxlint-disable-next-line no-control-regex
const separators = /[<>:"\\|?*\u0000-\u001f]/
/** Windows compares a name up to its first dot, without the spaces before the dot. */
const devices = /^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)/i
