import type { Guarantee } from './contender.js'
import { comparisons, type Comparison, type Report } from './results.js'
import { escaped } from './svg.js'
import { ratioText } from './tables.js'

const width = 960
const axisLeft = 430
const axisRight = 930
const headHeight = 76
const rowHeight = 24
const footHeight = 30

const classes: readonly (readonly [guarantee: Guarantee, label: string])[] = [
  ['memory', 'in memory'],
  ['survives kill -9', 'survives kill -9'],
  ['survives power loss', 'survives power loss'],
]

/** Colours for light and dark pages. The marks also differ in their shapes. */
const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .grid { stroke: #8c959f; stroke-opacity: 0.35 }
  .even { stroke: #8c959f; stroke-width: 2 }
  .class0 { fill: #0969da }
  .class1 { fill: #1a7f37 }
  .class2 { fill: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .class0 { fill: #4493f8 }
    .class1 { fill: #3fb950 }
    .class2 { fill: #f0883e }
  }
`

interface Mark {
  readonly index: number
  readonly ratio: number
  readonly about: string
}

interface Line {
  readonly title: string
  readonly marks: readonly Mark[]
}

/**
 * Draws one chart of all scenarios: the cost of the cheapest variant of forkspace, divided by that of the cheapest peer
 * of the same class, on a logarithmic scale. Classes without a peer have no mark.
 */
export function renderChart({ tables }: Report): string {
  const lines = tables
    .map((table): Line => ({ title: table.title, marks: comparisons(table).flatMap(marksOf) }))
    .filter(({ marks }) => marks.length > 0)
  const ratios = lines.flatMap(({ marks }) => marks.map(({ ratio }) => ratio))
  const [low, high] = [Math.min(0.1, ...ratios), Math.max(10, ...ratios)].map(Math.log10)
  const scale: Scale = { low: Math.floor(low!), high: Math.ceil(high!) }
  const bottom = headHeight + lines.length * rowHeight
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + footHeight}" width="${width}" height="${bottom + footHeight}" role="img">`,
    '<title>The cost of forkspace, divided by that of the cheapest peer</title>',
    `<style>${style}</style>`,
    `<text class="title" x="8" y="20">Cost of forkspace, divided by that of the cheapest peer of the same class</text>`,
    ...classes.map(([, label], index) => legend(index, label)),
    ...axis(scale, bottom),
    ...lines.map((line, index) => drawLine(line, headHeight + index * rowHeight, scale)),
    `<text x="${axisLeft}" y="${bottom + 22}">forkspace is cheaper</text>`,
    `<text x="${axisRight}" y="${bottom + 22}" text-anchor="end">the peer is cheaper</text>`,
    '</svg>\n',
  ].join('\n')
}

function marksOf({ guarantee, own, peer }: Comparison): Mark[] {
  const index = classes.findIndex(([name]) => name === guarantee)
  if (own.toPeer === undefined) return []
  const about = `${classes[index]![1]}: ${own.contender} takes ${ratioText(own.toPeer)} of ${peer.contender}`
  return [{ index, ratio: own.toPeer, about }]
}

/** The powers of ten at the ends of the axis. */
interface Scale {
  readonly low: number
  readonly high: number
}

function placeOf(ratio: number, { low, high }: Scale): number {
  return axisLeft + ((Math.log10(ratio) - low) / (high - low)) * (axisRight - axisLeft)
}

function axis(scale: Scale, bottom: number): string[] {
  const lines: string[] = []
  for (let power = scale.low; power <= scale.high; power++) {
    const x = placeOf(10 ** power, scale).toFixed(1)
    const text = power < 0 ? `1/${(10 ** -power).toLocaleString('en')}` : (10 ** power).toLocaleString('en')
    lines.push(
      `<line class="${power === 0 ? 'even' : 'grid'}" x1="${x}" x2="${x}" y1="${headHeight - 8}" y2="${bottom}"/>`,
      `<text x="${x}" y="${headHeight - 14}" text-anchor="middle">${text}</text>`,
    )
  }
  return lines
}

function legend(index: number, label: string): string {
  const x = 16 + index * 150
  return `${shape(index, x, 40)}<text x="${x + 12}" y="44">${escaped(label)}</text>`
}

function drawLine({ title, marks }: Line, top: number, scale: Scale): string {
  const middle = top + rowHeight / 2
  return [
    `<text x="${axisLeft - 12}" y="${middle + 4}" text-anchor="end">${escaped(title)}</text>`,
    ...marks.map(
      ({ index, ratio, about }) =>
        `<g>${shape(index, placeOf(ratio, scale), middle)}<title>${escaped(about)}</title></g>`,
    ),
  ].join('\n')
}

/** A circle, a square or a diamond around a point. */
function shape(index: number, x: number, y: number): string {
  const at = x.toFixed(1)
  if (index === 0) return `<circle class="class0" cx="${at}" cy="${y}" r="6"/>`
  const turn = index === 2 ? ` transform="rotate(45 ${at} ${y})"` : ''
  return `<rect class="class${index}" x="${(x - 5).toFixed(1)}" y="${y - 5}" width="10" height="10"${turn}/>`
}
