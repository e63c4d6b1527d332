import { formatUsdc } from '../../budget/usdc.ts'
import type { ReceiptRecord } from '../../farebox.ts'
import { examples } from '../examples.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { counted, usdc } from '../transcribe/amounts.ts'
import { integerBetween, timeOf } from './calls/option-values.ts'
import { renderTable } from './text-table.ts'

interface ReceiptsOptions {
  readonly since?: Date
  readonly fromService?: boolean
  readonly limit?: number
}

/** A table for people ends here unless a period or a limit is named. */
const SHOWN_ROWS = 50

export const registerReceipts: RegisterCommand = (program, run) => {
  program
    .command('receipts')
    .summary('list what was paid')
    .description('Lists what was paid, newest first: calls of this machine by its journal, or all of the wallet.')
    .option('--since <time>', 'from a UTC day (2026-11-22), a time, or how long ago (24h, 7d)', timeOf)
    .option('--from-service', 'all calls of the wallet on any machine; signs a free request')
    .option('--limit <n>', `how many (default: ${SHOWN_ROWS}; all with --since or --json)`, integerBetween(1, 1e9))
    .addHelpText(
      'after',
      examples([
        ['farebox receipts --since 24h', 'the last day'],
        ['farebox receipts --from-service --since 2026-11-01', 'also of other machines'],
        ['farebox receipts --json | jq -s "map(.charged | tonumber) | add"', 'one object a line, for programs'],
      ]),
    )
    .action(run(receipts))
}

async function receipts(context: CommandContext, options: ReceiptsOptions): Promise<undefined> {
  const farebox = await context.farebox()
  const { output, signal } = context
  const { since, fromService, limit = since === undefined && !output.json ? SHOWN_ROWS : Infinity } = options
  const source = fromService === true ? 'service' : 'journal'
  const rows: ReceiptRecord[] = []
  let hasMore = false
  for await (const record of farebox.receipts({ since, source, signal })) {
    hasMore = rows.length >= limit
    if (hasMore) break
    rows.push(record)
    if (output.json) output.event(receiptForm(record))
  }
  if (output.json) return
  if (rows.length === 0) output.note(source === 'journal' ? `${NONE} Other machines: --from-service.` : NONE)
  else output.result({}, describeReceipts(rows))
  if (hasMore) output.note(`There are more: --limit or --since shows them.`)
}

const NONE = 'Nothing was paid in this period.'

/** Returns what `--json` shows. The token that opens the receipt stays in the journal. */
function receiptForm(record: ReceiptRecord): object {
  const { receiptId, at, charged, operation, model, purpose, transaction, verified, problems, key, receipt } = record
  const form = { receiptId, at, charged, operation, model, purpose, transaction, verified, problems, requestId: key }
  return receipt === null ? form : { ...form, receipt }
}

function describeReceipts(records: readonly ReceiptRecord[]): string {
  const rows = records.map(({ at, purpose, operation, model, charged, verified, receiptId, problems }) => [
    `${at.toISOString().slice(0, 16).replace('T', ' ')}Z`,
    purpose ?? CALLS[operation] ?? operation,
    model ?? '',
    formatUsdc(charged),
    problems.length > 0 && verified === 'failed' ? `FAILED: ${problems.join('; ')}` : VERIFIED[verified],
    receiptId ?? '',
  ])
  const total = records.reduce((sum, { charged }) => sum + charged, 0n)
  const table = renderTable(['time', 'call', 'model', 'USDC', 'verified', 'receipt'], rows, { right: [3] })
  return `${table}\n\n${counted(records.length, 'call')}, ${usdc(total)}`
}

/** What the journal calls them, for those that only the service knows. */
const CALLS: Readonly<Record<string, string>> = {
  createChatCompletion: 'chat',
  createMessage: 'message',
  createImageGeneration: 'image',
  createSpeech: 'say',
  createTranscription: 'transcribe',
}
const VERIFIED = { not_checked: 'no', passed: 'yes', failed: 'FAILED' } as const
