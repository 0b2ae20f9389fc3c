import Table from 'cli-table3'
import colors from 'picocolors'
import { isMet, missedBy, type Figures, type Row, type Scenario, type Unit } from './scenario.js'

const coloured = colors.isColorSupported && (process.stdout.isTTY || Boolean(process.env['FORCE_COLOR']))
const { bold, green, red } = colors.createColors(coloured)

interface Column {
  readonly head: string
  readonly left?: true
  readonly cell: (row: Row) => string
}

/** Renders one table. Colours only repeat the words. Empty columns are omitted. */
export function renderTable(scenario: Scenario, rows: readonly Row[]): string {
  const compared = rows.some(({ peer }) => peer !== undefined)
  const columns = columnsOf(scenario).filter(({ cell }) => rows.some((row) => cell(row) !== ''))
  const clock = scenario.clock === 'cpu' ? ', by CPU time' : ''
  const title = compared ? `${scenario.title}\n${speedMeans}${clock}` : scenario.title
  const cells = rows.map((row) => columns.map(({ cell }) => cell(row)))
  return renderCells(title, columns, cells)
}

/** Renders the cells of a table without borders, below its title. */
export function renderCells(
  title: string,
  columns: readonly { readonly head: string; readonly left?: true }[],
  rows: readonly (readonly string[])[],
): string {
  const table = new Table({
    head: columns.map(({ head }) => head),
    colAligns: columns.map(({ left }) => (left ? 'left' : 'right')),
    chars: noBorders,
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 2 },
  })
  for (const row of rows) table.push([...row])
  const lines = table.toString().split('\n')
  return `${bold(title)}\n${lines.map((line) => line.trimEnd()).join('\n')}\n`
}

/** Renders one row as progress, because a scenario can take minutes to complete its table. */
export function renderLine(scenario: Scenario, row: Row): string {
  const cells = columnsOf(scenario).flatMap(({ head, cell }) => {
    const text = cell(row)
    return text === '' ? [] : [head === 'measurement' || head === 'verdict' ? text : `${head} ${text}`]
  })
  return `  ${scenario.name}: ${cells.join(', ')}`
}

const speedMeans = 'speed: how many times as fast as the peer (2x means half its time)'

const edges = ['top', 'bottom', 'left', 'mid', 'right', 'middle']
const joints = edges.flatMap((edge) => ['mid', 'left', 'right'].map((side) => `${edge}-${side}`))
const noBorders = Object.fromEntries([...edges, ...joints].map((name) => [name, '']))

function columnsOf({ clock }: Scenario): Column[] {
  const cpu = clock === 'cpu'
  return [
    { head: 'measurement', left: true, cell: ({ what }) => what },
    { head: 'median', cell: (row) => figure(row, 'median', row.unit) },
    { head: 'best', cell: best },
    { head: 'cpu', cell: (row) => (cpu ? figure(row, 'cpu', row.unit) : '') },
    { head: 'peer', left: true, cell: ({ peer }) => peer?.name ?? '' },
    { head: 'median', cell: ({ peer, unit }) => figure(peer, 'median', unit) },
    { head: 'cpu', cell: ({ peer, unit }) => (cpu ? figure(peer, 'cpu', unit) : '') },
    { head: 'speed', cell: ({ speed }) => (speed === undefined ? '' : `${digits(speed)}x`) },
    { head: 'target', cell: target },
    { head: 'verdict', left: true, cell: verdict },
  ]
}

/** Counts the targets and those that are met. Rows below noise are counted separately. */
export function summarize(rows: readonly Row[]): { met: number; targets: number; belowNoise: number } {
  const verdicts = rows.map(isMet).filter((met) => met !== undefined)
  const belowNoise = rows.filter((row) => row.target !== undefined && isMet(row) === undefined).length
  return { met: verdicts.filter(Boolean).length, targets: verdicts.length, belowNoise }
}

/** Omits the best round if it equals the median, or if the row has a peer and no limit. The JSON document always has it. */
function best(row: Row): string {
  const limited = row.target !== undefined && 'atMost' in row.target
  return (limited || row.peer === undefined) && row.best !== row.median ? figure(row, 'best', row.unit) : ''
}

function figure(figures: Figures | undefined, which: 'median' | 'best' | 'cpu', unit: Unit): string {
  if (figures?.belowNoise === true) return which === 'median' ? 'below noise' : ''
  const value = figures?.[which]
  return value === undefined ? '' : format(value, unit)
}

function target({ target, unit }: Row): string {
  if (target === undefined) return ''
  return 'atMost' in target ? `<= ${format(target.atMost, unit)}` : `>= ${digits(target.speedAtLeast)}x`
}

function verdict(row: Row): string {
  const met = isMet(row)
  if (met === undefined) return row.target === undefined ? '' : 'unknown'
  if (met) return green('ok')
  const by = missedBy(row)
  return red(Number.isFinite(by) ? `missed ${digits(by)}x` : 'missed')
}

export function format(figure: number, unit: Unit): string {
  if (unit === 'time') {
    if (figure >= 1000) return `${digits(figure / 1000)} s`
    return figure >= 1 ? `${digits(figure)} ms` : `${digits(figure * 1000)} µs`
  }
  if (unit === 'bytes') return `${Math.round(figure)} B`
  if (unit === 'per second') return `${Math.round(figure).toLocaleString('en')} /s`
  return String(figure)
}

export function digits(figure: number): string {
  return figure.toFixed(figure >= 100 ? 0 : figure >= 10 ? 1 : 2)
}
