import type { Report, Row, Table } from './results.js'
import { ratioText } from './tables.js'

const width = 860
const labelWidth = 260
const barWidth = 440
const rowHeight = 20
const headHeight = 44

/** Neutral colours for light and dark pages. */
const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 14px }
  .bar { fill: #8c959f }
  .own { fill: #0969da }
  .axis { stroke: #8c959f }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .bar { fill: #6e7681 }
    .own { fill: #4493f8 }
  }
`

/** Draws one bar per contender and scenario: its cost as a multiple of the limit, on a logarithmic scale. */
export function renderSvg({ tables }: Report): string {
  const parts: string[] = []
  let top = 0
  for (const table of tables) {
    const rows = table.rows.filter(({ toLimit, limit }) => toLimit !== undefined && !limit)
    if (rows.length === 0) continue
    parts.push(`<g transform="translate(0 ${top})">${drawTable(table, rows)}</g>`)
    top += headHeight + rows.length * rowHeight + 16
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${top}" width="${width}" height="${top}" role="img">`,
    `<title>Cost as a multiple of the limit</title>`,
    `<style>${style}</style>`,
    ...parts,
    '</svg>\n',
  ].join('\n')
}

function drawTable({ scenario, title, unit }: Table, rows: readonly Row[]): string {
  const most = Math.max(10, ...rows.map(({ toLimit }) => toLimit!))
  const figure = unit === 'time' ? 'CPU time' : 'memory'
  const heading = `${scenario}: ${title}`
  const bars = rows.map((row, index) => drawBar(row, headHeight + index * rowHeight, most))
  const bottom = headHeight + rows.length * rowHeight
  return [
    `<text class="title" x="8" y="18">${escaped(heading)}</text>`,
    `<text x="8" y="36">${figure} as a multiple of the limit, logarithmic</text>`,
    `<line class="axis" x1="${labelWidth}" x2="${labelWidth}" y1="${headHeight - 2}" y2="${bottom}"/>`,
    ...bars,
  ].join('\n')
}

function drawBar({ contender, family, guarantee, toLimit, notes }: Row, top: number, most: number): string {
  // A bar has at least one pixel, also where a contender is as cheap as its limit.
  const length = Math.max(1, (Math.log10(Math.max(1, toLimit!)) / Math.log10(most)) * barWidth)
  const wrong = notes.length > 0 ? ', see its note' : ''
  return [
    `<text x="${labelWidth - 8}" y="${top + 14}" text-anchor="end">${escaped(contender)}</text>`,
    `<rect class="${family === 'forkspace' ? 'own' : 'bar'}" x="${labelWidth}" y="${top + 3}" width="${length.toFixed(1)}" height="14"><title>${escaped(guarantee)}</title></rect>`,
    `<text x="${(labelWidth + length + 6).toFixed(1)}" y="${top + 14}">${escaped(ratioText(toLimit) + wrong)}</text>`,
  ].join('\n')
}

/** Text for SVG. */
export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
