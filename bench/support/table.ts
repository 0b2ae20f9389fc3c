import Table from 'cli-table3'
import colors from 'picocolors'
import { isMet, type Row, type Scenario, type Unit } from './scenario.js'

/** One table; everything it says by colour it says in words too. */
export function renderTable(scenario: Scenario, rows: readonly Row[]): string {
  const table = new Table({
    head: ['what', 'median', 'best', 'cpu', 'peer', 'median', 'best', 'cpu', scenario.ratio, 'target', ''],
    colAligns: [
      'left',
      'right',
      'right',
      'right',
      'left',
      'right',
      'right',
      'right',
      'right',
      'right',
      'left',
    ],
    style: { head: [], border: [], compact: true },
  })
  for (const row of rows) table.push(cells(row))
  return `${colors.bold(scenario.title)}\n${table.toString()}\n`
}

/** How many targets are met. */
export function summarize(rows: readonly Row[]): { met: number; targets: number } {
  const verdicts = rows.map(isMet).filter((met) => met !== undefined)
  return { met: verdicts.filter(Boolean).length, targets: verdicts.length }
}

function cells(row: Row): string[] {
  const { what, unit, cpu, peer, ratio } = row
  return [
    what,
    format(row.median, unit),
    format(row.best, unit),
    cpu === undefined ? '' : format(cpu, unit),
    peer === undefined ? '' : peer.name,
    peer === undefined ? '' : format(peer.median, unit),
    peer === undefined ? '' : format(peer.best, unit),
    peer?.cpu === undefined ? '' : format(peer.cpu, unit),
    ratio === undefined ? '' : digits(ratio),
    target(row),
    verdict(isMet(row)),
  ]
}

function target({ target, unit }: Row): string {
  if (target === undefined) return ''
  if ('atMost' in target) return `<= ${format(target.atMost, unit)}`
  return 'ratioAtLeast' in target ? `ratio >= ${target.ratioAtLeast}` : `ratio <= ${target.ratioAtMost}`
}

function verdict(met: boolean | undefined): string {
  if (met === undefined) return ''
  return met ? colors.green('ok') : colors.red('missed')
}

function format(figure: number, unit: Unit): string {
  if (unit === 'time') {
    if (Math.abs(figure) >= 1000) return `${digits(figure / 1000)} s`
    return Math.abs(figure) >= 1 ? `${digits(figure)} ms` : `${digits(figure * 1000)} µs`
  }
  if (unit === 'bytes') return `${Math.round(figure)} B`
  if (unit === 'per second') return `${Math.round(figure).toLocaleString('en')} /s`
  return String(figure)
}

function digits(figure: number): string {
  const size = Math.abs(figure)
  return figure.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)
}
