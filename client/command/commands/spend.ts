import { Option } from 'commander'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Spend, SpendRow } from '../../farebox.ts'
import { DEFAULT_DAYS, MOST_DAYS, SPEND_COLUMNS, sumsBy } from '../../receipts/spend.ts'
import { examples } from '../examples.ts'
import { UsageError } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { count, counted, usdc } from '../transcribe/amounts.ts'
import { integerBetween } from './calls/option-values.ts'
import { renderTable } from './text-table.ts'

const NEEDS_QUOTES = /[",\r\n]/
/** A spreadsheet would take it for a formula. */
const FORMULA = /^[=+\-@\t\r]/

const GROUPINGS = ['day', 'model', 'operation', 'all'] as const
type Grouping = (typeof GROUPINGS)[number]

interface SpendOptions {
  readonly by?: Grouping
  readonly days: number
  readonly csv?: boolean
}

export const registerSpend: RegisterCommand = (program, run) => {
  program
    .command('spend')
    .summary('add up what was paid')
    .description('Adds up what this machine paid by UTC day, from its journal.')
    .option('--days <n>', 'how many days, today included', integerBetween(1, MOST_DAYS), DEFAULT_DAYS)
    .addOption(new Option('--by <column>', 'one row for each; day by default, with --csv all').choices(GROUPINGS))
    .option('--csv', 'CSV on stdout, one row for each day, model, operation and purpose unless --by is added')
    .addHelpText(
      'after',
      examples([
        ['farebox spend', 'the last 30 days'],
        ['farebox spend --days 7 --by model', 'a week by model'],
        ['farebox spend --csv > spend.csv', 'for a spreadsheet'],
      ]),
    )
    .action(run(spend))
}

async function spend(context: CommandContext, { by: column, days, csv }: SpendOptions): Promise<undefined> {
  const { output } = context
  if (csv === true && output.json) throw new UsageError('--csv and --json exclude each other.')
  const by = column ?? (csv === true ? 'all' : 'day')
  const farebox = await context.farebox()
  const total = farebox.spend({ days })
  const rows: readonly Row[] =
    by === 'all' ? total.rows : sumsBy(total.rows, by).map(({ value, ...sum }) => ({ [by]: value ?? '', ...sum }))
  if (output.json) output.event({ ...total, by, rows })
  else if (csv === true) await output.content(csvOf(by, rows))
  else output.result({}, describeSpend(by, rows, total))
}

type Row = Partial<SpendRow> & Pick<SpendRow, 'calls' | 'charged'>

function columnsOf(by: Grouping): readonly (typeof SPEND_COLUMNS)[number][] {
  return by === 'all' ? SPEND_COLUMNS : [by]
}

function cellsOf(row: Row, columns: readonly (typeof SPEND_COLUMNS)[number][]): readonly string[] {
  return columns.map((column) => row[column] ?? '')
}

function csvOf(by: Grouping, rows: readonly Row[]): string {
  const columns = columnsOf(by)
  const lines = rows.map((row) => [...cellsOf(row, columns), row.calls.toString(), formatUsdc(row.charged)])
  return [[...columns, 'calls', 'charged_usdc'], ...lines].map(csvLine).join('')
}

function describeSpend(by: Grouping, rows: readonly Row[], { from, to, calls, charged, open }: Spend): string {
  const columns = columnsOf(by)
  const cells = rows.map((row) => [...cellsOf(row, columns), count(row.calls), formatUsdc(row.charged)])
  const right = [columns.length, columns.length + 1]
  const table = rows.length === 0 ? [] : [renderTable([...columns, 'calls', 'USDC'], cells, { right }), '']
  const reserved = open === 0n ? '' : `; up to ${usdc(open)} more for calls without an outcome`
  return [...table, `${from} to ${to}: ${counted(calls, 'call')}, ${usdc(charged)}${reserved}`].join('\n')
}

/** Renders a line of CSV (RFC 4180). */
export function csvLine(cells: readonly string[]): string {
  const rendered = cells.map((cell) => {
    const text = FORMULA.test(cell) ? `'${cell}` : cell
    return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  })
  return `${rendered.join(',')}\r\n`
}
