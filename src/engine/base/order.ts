/**
 * Compares two strings by the bytes of their UTF-8 form. The result differs from the order of JavaScript
 * strings only if a surrogate pair (U+10000 and above) is compared with a unit from U+E000 on.
 */
export function compareUtf8(a: string, b: string): number {
  if (a === b) return 0
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return (isSurrogate(x) ? x + 0x10000 : x) - (isSurrogate(y) ? y + 0x10000 : y)
  }
  return a.length - b.length
}

/** Whether the order of JavaScript strings may be wrong for this one. */
export function needsUtf8Order(text: string): boolean {
  return /[\ud800-\uffff]/.test(text)
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff
}
