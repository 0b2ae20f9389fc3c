import { escaped } from '../peers/svg.js'
import type { Growing, Row } from './scenario.js'
import { format } from './table.js'

const panelWidth = 330
const plotLeft = 58
const plotRight = 310
const plotTop = 64
const plotBottom = 284
const legendHeight = 20
const axes: readonly Growing['axis'][] = ['files', 'forks', 'events']

/** Colours that differ on light and dark pages. The legend has the figures, so no line depends on its colour alone. */
const colours = ['#0969da', '#1a7f37', '#bc4c00', '#8250df', '#cf222e', '#0e8a8a', '#9a6700', '#bf3989']
const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .grid { stroke: #8c959f; stroke-opacity: 0.35 }
  polyline { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
`

interface Point {
  readonly size: number
  readonly ms: number
}

/** Draws the time of each operation against the number of files, forks and events. Both scales are logarithmic. */
export function renderGrowth(rows: readonly Row[]): string {
  const panels = axes
    .map((axis) => ({ axis, lines: linesOf(rows, axis) }))
    .filter(({ lines }) => lines.size > 0)
  const times = panels.flatMap(({ lines }) => [...lines.values()].flat().map(({ ms }) => ms))
  const range = powersOf(times)
  const width = panels.length * panelWidth
  const height = plotBottom + 40 + legendHeight * Math.max(...panels.map(({ lines }) => lines.size))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>Time of an operation against the number of files, forks and events</title>',
    `<style>${style}</style>`,
    '<text class="title" x="8" y="20">Time of one operation in memory. A level line means that size has no effect.</text>',
    ...panels.map(
      ({ axis, lines }, index) =>
        `<g transform="translate(${index * panelWidth} 0)">${drawPanel(axis, lines, range)}</g>`,
    ),
    '</svg>\n',
  ].join('\n')
}

function linesOf(rows: readonly Row[], axis: Growing['axis']): Map<string, Point[]> {
  const lines = new Map<string, Point[]>()
  for (const { growing, median } of rows) {
    if (growing?.axis !== axis) continue
    const line = lines.get(growing.operation) ?? []
    line.push({ size: growing.size, ms: median })
    lines.set(growing.operation, line)
  }
  return lines
}

/** The powers of ten around values. */
interface Powers {
  readonly low: number
  readonly high: number
}

function powersOf(values: readonly number[]): Powers {
  const low = Math.floor(Math.log10(Math.min(...values)))
  return { low, high: Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)))) }
}

function drawPanel(
  axis: Growing['axis'],
  lines: ReadonlyMap<string, readonly Point[]>,
  times: Powers,
): string {
  const sizes = powersOf([...lines.values()].flat().map(({ size }) => size))
  const x = (size: number): number =>
    plotLeft + ((Math.log10(size) - sizes.low) / (sizes.high - sizes.low)) * (plotRight - plotLeft)
  const y = (ms: number): number =>
    plotBottom - ((Math.log10(ms) - times.low) / (times.high - times.low)) * (plotBottom - plotTop)
  const parts = [
    `<text x="${(plotLeft + plotRight) / 2}" y="48" text-anchor="middle">number of ${axis}</text>`,
  ]
  for (let power = times.low; power <= times.high; power++) {
    const at = y(10 ** power).toFixed(1)
    parts.push(
      `<line class="grid" x1="${plotLeft}" x2="${plotRight}" y1="${at}" y2="${at}"/>`,
      `<text x="${plotLeft - 6}" y="${Number(at) + 4}" text-anchor="end">${shortTime(power)}</text>`,
    )
  }
  for (let power = sizes.low; power <= sizes.high; power++)
    parts.push(
      `<text x="${x(10 ** power).toFixed(1)}" y="${plotBottom + 16}" text-anchor="middle">${shortSize(power)}</text>`,
    )
  for (const [index, [operation, points]] of [...lines].entries())
    parts.push(
      drawLine(
        index,
        operation,
        points.map(({ size, ms }) => ({ x: x(size), y: y(ms) })),
        points,
      ),
    )
  return parts.join('\n')
}

function drawLine(
  index: number,
  operation: string,
  places: readonly { readonly x: number; readonly y: number }[],
  points: readonly Point[],
): string {
  const colour = colours[index % colours.length]
  const top = plotBottom + 40 + index * legendHeight
  const [first, last] = [points[0], points.at(-1)].map((point) => format(point?.ms ?? 0, 'time'))
  return [
    `<polyline stroke="${colour}" points="${places.map((place) => `${place.x.toFixed(1)},${place.y.toFixed(1)}`).join(' ')}"/>`,
    ...places.map(
      (place) => `<circle cx="${place.x.toFixed(1)}" cy="${place.y.toFixed(1)}" r="3" fill="${colour}"/>`,
    ),
    `<rect x="${plotLeft - 44}" y="${top - 9}" width="12" height="10" fill="${colour}"/>`,
    `<text x="${plotLeft - 26}" y="${top}">${escaped(operation)}: ${first} to ${last}</text>`,
  ].join('\n')
}

function shortTime(power: number): string {
  return format(10 ** power, 'time').replace(/\.0+(?= )/, '')
}

function shortSize(power: number): string {
  return power >= 6 ? `${10 ** (power - 6)}M` : power >= 3 ? `${10 ** (power - 3)}k` : String(10 ** power)
}
