import { digits, format, renderCells } from '../support/table.js'
import { comparisons, costOf, type Report, type Row, type Table } from './results.js'

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

/** Renders a summary and all tables as Markdown, without the contenders that have no figures. */
export function renderMarkdown({ node, machine, tables }: Report): string {
  const parts = tables.map((table) => {
    const columns = columnsOf(table)
    const rows = table.rows.filter(({ outcome }) => outcome === 'measured')
    return [
      `### ${table.scenario}: ${table.title}`,
      '',
      line(columns.map(({ head }) => head)),
      line(columns.map(({ left }) => (left ? '---' : '---:'))),
      ...rows.map((row) => line(columns.map(({ cell }) => cell(row).replaceAll('|', String.raw`\|`)))),
    ].join('\n')
  })
  const measured = `Measured on Node ${node}${machine === undefined ? '' : `, ${machine}`}.`
  return `${[measured, summaryOf(tables), ...parts].join('\n\n')}\n`
}

/** For each scenario, the cost of forkspace and of its cheapest peer. */
function summaryOf(tables: readonly Table[]): string {
  const rows = tables.flatMap((table) =>
    comparisons(table).map(({ guarantee, own, peer }) => {
      const isWrong = peer.notes.some((note) => note.startsWith('wrong'))
      const cost = (row: Row): string => format(costOf(row) ?? 0, table.unit)
      const cells = [table.scenario, guarantee, cost(own), cost(peer), ratioText(own.toPeer)]
      return line([
        ...cells,
        ratioText(own.toLimit),
        `${peer.contender}${isWrong ? ', with wrong answers' : ''}`,
      ])
    }),
  )
  return [
    line(['scenario', 'class', 'forkspace', 'peer', 'to best peer', 'to limit', 'best peer']),
    line(['---', '---', '---:', '---:', '---:', '---:', '---']),
    ...rows,
  ].join('\n')
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
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
