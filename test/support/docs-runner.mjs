// Runs compiled pages, one after the other, and prints the output or the failure of each as a line of JSON.
import { setTimeout } from 'node:timers/promises'
import { format, inspect } from 'node:util'

const { pages, directory, timeoutMs } = JSON.parse(process.argv[2])
const print = process.stdout.write.bind(process.stdout)
// Nothing that a page writes itself gets between the lines.
process.stdout.write = () => true
for (const [index, { path, url }] of pages.entries()) {
  const output = []
  const log = (line, ...values) => output.push([line, format(...values)])
  let failure
  try {
    const { default: run } = await import(url)
    const late = setTimeout(timeoutMs, undefined, { ref: false }).then(() => {
      throw new Error(`runs for over ${timeoutMs} ms`)
    })
    await Promise.race([run(log, `${directory}/${index}`), late])
  } catch (error) {
    failure = inspect(error)
  }
  print(`${JSON.stringify({ path, output, failure })}\n`)
}
process.exit()
