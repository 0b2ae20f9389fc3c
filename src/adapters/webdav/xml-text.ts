const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
}

/** Escapes text for the content of an element, or of an attribute in double quotes. */
export function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => escapes[character] ?? character)
}

export const xmlHead = '<?xml version="1.0" encoding="utf-8"?>\n'
