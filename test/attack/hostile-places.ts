/** Puts hostile values into arguments, and notices when a global prototype changes. */
import { Buffer } from 'node:buffer'

type Place = readonly (string | number)[]

/** Ignores the error of an earlier hostile value that is in the way. */
export function attempt(step: () => void): void {
  try {
    step()
  } catch {
    // The other arguments are hostile enough.
  }
}

/** The places inside a value of plain objects and arrays. */
export function* placesIn(given: unknown, at: Place): Generator<Place> {
  if (typeof given !== 'object' || given === null || ArrayBuffer.isView(given)) return
  if (!Array.isArray(given) && Object.getPrototypeOf(given) !== Object.prototype) return
  for (const [name, part] of Object.entries(given)) {
    yield [...at, name]
    yield* placesIn(part, [...at, name])
  }
}

/** Changes the value at a place; does nothing if an earlier hostile value is in the way. */
export function setAt(given: unknown[], place: Place, value: unknown): void {
  let at = given as unknown as Record<string | number, unknown>
  for (const name of place.slice(0, -1)) {
    const next = at[name]
    // An earlier hostile value is in the way.
    if (typeof next !== 'object' || next === null || hasHostile(next)) return
    at = next as Record<string | number, unknown>
  }
  Reflect.set(at, place.at(-1)!, value)
}

function hasHostile(value: object): boolean {
  try {
    return !Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype
  } catch {
    return true
  }
}

const watchedPrototypes = [
  Object,
  Array,
  Function,
  String,
  Number,
  Promise,
  Map,
  Set,
  RegExp,
  Error,
  Uint8Array,
  Buffer,
  ArrayBuffer,
  AbortSignal,
]

/** A text that differs after a global prototype changed. */
export function pictureOfPrototypes(): string {
  return watchedPrototypes.map(({ prototype }) => Reflect.ownKeys(prototype as object).length).join()
}
