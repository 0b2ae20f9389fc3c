// Runs compiled pages, one after the other, and prints the output or the failure of each as a line of JSON.
import { format, inspect } from 'node:util'

const { pages, directory } = JSON.parse(process.argv[2])
const print = process.stdout.write.bind(process.stdout)
for (const [index, { path, url }] of pages.entries()) {
  const output = []
  const log = (line, ...values) => output.push([line, format(...values)])
  let failure
  try {
    const { default: run } = await import(url)
    await run(log, `${directory}/${index}`)
  } catch (error) {
    failure = inspect(error)
  }
  print(`${JSON.stringify({ path, output, failure })}\n`)
}
