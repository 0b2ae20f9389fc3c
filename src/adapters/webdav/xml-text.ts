const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  '\t': '&#9;',
  '\n': '&#10;',
  '\r': '&#13;',
}

/** Escapes text for the content of an element, or of an attribute in double quotes. A parser would change line ends. */
export function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"\t\n\r]/g, (character) => escapes[character] ?? character)
}

export const xmlHead = '<?xml version="1.0" encoding="utf-8"?>\n'
