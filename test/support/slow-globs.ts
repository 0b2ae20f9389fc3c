/** A path whose match with a long glob takes a while. */
export const deepPath = `/${'a'.repeat(250)}`.repeat(15)

/** Globs that match no such path, but only its end shows that. Each begins with `start`. */
export function longPatterns(start: '' | '/'): string[] {
  return Array.from({ length: 15 }, () => `${start}${`${'*a'.repeat(120)}*/`.repeat(15)}b`)
}
