import { digits, format, renderCells } from '../support/table.js'
import type { Report, Row, Table } from './results.js'

interface Column {
  readonly head: string
  readonly left?: true
  readonly cell: (row: Row) => string
}

/** Renders the table of one scenario for a terminal. Contenders without the call share one line. */
export function renderPeers(table: Table): string {
  const columns = columnsOf(table)
  const unable = table.rows.filter(({ outcome }) => outcome === 'n/a').map(({ contender }) => contender)
  const able = table.rows.filter(({ outcome }) => outcome !== 'n/a')
  const cells = able.map((row) => columns.map(({ cell }) => cell(row)))
  const text = renderCells(`${table.scenario}: ${table.title}`, columns, cells)
  return unable.length === 0 ? text : `${text}n/a: ${unable.join('; ')}\n`
}

/** Renders all tables as Markdown, without the contenders that have no figures. */
export function renderMarkdown({ node, tables }: Report): string {
  const parts = tables.map((table) => {
    const columns = columnsOf(table)
    const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
    const rows = table.rows.filter(({ outcome }) => outcome === 'measured')
    return [
      `### ${table.scenario}: ${table.title}`,
      '',
      line(columns.map(({ head }) => head)),
      line(columns.map(({ left }) => (left ? '---' : '---:'))),
      ...rows.map((row) => line(columns.map(({ cell }) => cell(row).replaceAll('|', String.raw`\|`)))),
    ].join('\n')
  })
  return `Measured on Node ${node}.\n\n${parts.join('\n\n')}\n`
}

export function ratioText(ratio: number | undefined): string {
  if (ratio === undefined) return ''
  return `${ratio >= 1000 ? Math.round(ratio).toLocaleString('en') : digits(ratio)}x`
}

function columnsOf({ unit }: Table): Column[] {
  const figure = (value: number | undefined): string => (value === undefined ? '' : format(value, unit))
  const times: Column[] = [
    { head: 'cold', cell: ({ cold }) => figure(cold) },
    { head: 'wall', cell: ({ wall }) => figure(wall) },
    { head: 'cpu', cell: ({ cpu }) => figure(cpu) },
  ]
  const memory: Column[] = [{ head: 'memory', cell: ({ bytes }) => figure(bytes) }]
  return [
    { head: 'contender', left: true, cell: ({ contender }) => contender },
    { head: 'class', left: true, cell: ({ guarantee, limit }) => (limit ? 'limit' : guarantee) },
    ...(unit === 'time' ? times : memory),
    { head: 'to best peer', cell: ({ toPeer }) => ratioText(toPeer) },
    { head: 'to limit', cell: ({ toLimit, limit }) => (limit ? '' : ratioText(toLimit)) },
    { head: 'note', left: true, cell: noteOf },
  ]
}

function noteOf({ outcome, notes }: Row): string {
  return [...(outcome === 'measured' || outcome === 'failed' ? [] : [outcome]), ...notes].join('; ')
}
