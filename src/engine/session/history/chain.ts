import { hash } from 'node:crypto'
import type { EventBody, PublicPart, Redo } from '../../records/event.js'

/** The link before a session's first event. */
export const chainStart = ''

/**
 * The body of an event as it is stored, and its link: the SHA-256 over the link before it, its public part and
 * the SHA-256 of its redo. So each event fixes all before it.
 */
export function chainEvent(
  event: PublicPart,
  previous: string,
  redo: readonly Redo[],
): { readonly text: string; readonly link: string } {
  const publicText = JSON.stringify(event)
  const redoText = JSON.stringify(redo)
  const link = linkOf(previous, publicText, hashText(redoText))
  return { text: `${publicText.slice(0, -1)},"${link}",${redoText}]`, link }
}

/** The link that an event after this one must have. */
export function expectedLink([at, type, details, principal, , redo]: EventBody, previous: string): string {
  const publicText = JSON.stringify([at, type, details, principal] satisfies PublicPart)
  return linkOf(previous, publicText, redoHash(redo))
}

/** The part of a link for a redo; without one, as on stores that are not durable, it is the hash of an empty one. */
export function redoHash(redo: EventBody[5] = []): string {
  return typeof redo === 'string' ? redo : hashText(JSON.stringify(redo))
}

function hashText(redoText: string): string {
  return redoText === '[]' ? noRedo : digest(redoText)
}

function linkOf(previous: string, publicText: string, redo: string): string {
  return digest(`${previous}\n${publicText}\n${redo}`)
}

/** In base64 for URLs, which is short. */
function digest(text: string): string {
  return hash('sha256', text, 'base64url')
}

const noRedo = digest('[]')
