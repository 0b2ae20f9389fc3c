export const sectorBytes = 512

/** Ways to damage a sector of a file. */
export const damages: Readonly<Record<string, (bytes: Buffer, at: number, random: () => number) => Buffer>> =
  {
    zeroed: (bytes, at) => bytes.fill(0, at, Math.min(at + sectorBytes, bytes.length)),
    'with a bit flipped': (bytes, at, random) => {
      bytes[at + (random() % Math.min(sectorBytes, bytes.length - at))]! ^= 1 << (random() % 8)
      return bytes
    },
    'of random bytes': (bytes, at, random) => {
      for (let i = at; i < Math.min(at + sectorBytes, bytes.length); i++) bytes[i] = random()
      return bytes
    },
    'cut off': (bytes, at) => bytes.subarray(0, at),
    'written over the next one': (bytes, at) => {
      bytes.copy(bytes, at + sectorBytes, at, at + sectorBytes)
      return bytes
    },
    'there twice': (bytes, at) => Buffer.concat([bytes.subarray(0, at + sectorBytes), bytes.subarray(at)]),
  }

export function shuffled<T>(values: readonly T[], random: () => number): T[] {
  const order = values.map((value) => [random(), value] as const)
  return order.sort(([a], [b]) => a - b).map(([, value]) => value)
}
