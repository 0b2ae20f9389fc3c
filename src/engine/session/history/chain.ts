import { createHash, hash } from 'node:crypto'
import { nextTurn } from '../../base/cooperative.js'
import { limits } from '../../base/limits.js'
import type { EventBody, PublicPart, Redo } from '../../records/event.js'

/** The link that precedes a session's first event. */
export const chainStart = ''

/** A redo as JSON, and its hash, as it is part of a link. */
export interface EncodedRedo {
  readonly text: string
  readonly hash: string
}

/**
 * The stored body of an event, and its link. The link is the SHA-256 over the link of the previous event, the
 * public part of this event and the SHA-256 of its redo. So each link covers its event and all earlier ones.
 */
export function chainEvent(
  event: PublicPart,
  previous: string,
  redo: readonly Redo[] | EncodedRedo,
): { readonly text: string; readonly link: string } {
  const publicText = JSON.stringify(event)
  const { text, hash } = 'hash' in redo ? redo : encodeNow(redo)
  const link = linkOf(previous, publicText, hash)
  return { text: `${publicText.slice(0, -1)},"${link}",${text}]`, link }
}

function encodeNow(redo: readonly Redo[]): EncodedRedo {
  const text = JSON.stringify(redo)
  return { text, hash: hashText(text) }
}

/** Encodes a redo in parts, with a turn of the event loop after each. */
export async function encodeRedo(redo: readonly Redo[]): Promise<EncodedRedo> {
  let text = ''
  // A join of all parts would copy them in one turn.
  const { hash } = await digestParts(redo, (part) => {
    text += part
  })
  return { text: `${text}]`, hash }
}

/**
 * The link that this event must have. `previous` is the link of the event before it. The effects of a large event are
 * hashed in parts, with a turn of the event loop after each.
 */
export async function expectedLink(
  [at, type, details, principal, , redo]: EventBody,
  previous: string,
): Promise<string> {
  const publicText = JSON.stringify([at, type, details, principal] satisfies PublicPart)
  return linkOf(previous, publicText, isLarge(redo) ? (await digestRedo(redo)).hash : redoHash(redo))
}

function isLarge(redo: EventBody[5]): redo is readonly Redo[] {
  return typeof redo === 'object' && redo.length > limits.effectsPerTurn
}

/** The hash of a redo, as it is part of a link, and its length as JSON. */
interface RedoDigest {
  readonly hash: string
  readonly length: number
}

/** A large redo is read in parts, with a turn of the event loop after each. */
export async function digestRedo(redo: readonly Redo[]): Promise<RedoDigest> {
  if (!isLarge(redo)) {
    const text = JSON.stringify(redo)
    return { hash: hashText(text), length: text.length }
  }
  return digestParts(redo)
}

async function digestParts(redo: readonly Redo[], take?: (part: string) => void): Promise<RedoDigest> {
  const digested = createHash('sha256')
  let length = 1
  for (let from = 0; from < redo.length; from += limits.effectsPerTurn) {
    const text = JSON.stringify(redo.slice(from, from + limits.effectsPerTurn))
    const part = `${from === 0 ? '[' : ','}${text.slice(1, -1)}`
    digested.update(part)
    take?.(part)
    length += text.length - 1
    await nextTurn()
  }
  return { hash: digested.update(']').digest('base64url'), length }
}

/**
 * The hash of a redo, as it is part of a link. If there is no redo, as on stores that are not durable, it is
 * the hash of an empty one.
 */
export function redoHash(redo: EventBody[5] = []): string {
  return typeof redo === 'string' ? redo : hashText(JSON.stringify(redo))
}

/**
 * The effects of an event. Undefined if only their hash is known, because they were collected, or the event came with a
 * bundle. The hash of no effects is known.
 */
export function knownRedo(redo: EventBody[5]): readonly Redo[] | undefined {
  if (typeof redo !== 'string') return redo
  return redo === noRedo ? [] : undefined
}

function hashText(redoText: string): string {
  return redoText === '[]' ? noRedo : digest(redoText)
}

function linkOf(previous: string, publicText: string, redo: string): string {
  return digest(`${previous}\n${publicText}\n${redo}`)
}

/** The SHA-256 in base64url, which is shorter than hex. */
function digest(text: string): string {
  return hash('sha256', text, 'base64url')
}

const noRedo = digest('[]')
