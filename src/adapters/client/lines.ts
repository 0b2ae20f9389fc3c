/**
 * Yields the lines of a body, without empty ones. Throws if the body ends within a line. Leaving the loop
 * cancels the body.
 */
export async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let parts: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      const text = decoder.decode(value, { stream: true })
      let start = 0
      for (let end; (end = text.indexOf('\n', start)) >= 0; start = end + 1) {
        parts.push(text.slice(start, end))
        const line = parts.join('').trim()
        parts = []
        if (line !== '') yield line
      }
      parts.push(text.slice(start))
    }
    if (parts.join('').trim() !== '') throw new Error('the stream ends within a line')
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
