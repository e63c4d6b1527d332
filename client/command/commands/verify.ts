import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { ReceiptVerification, Wire } from '../../farebox.ts'
import { parseObject } from '../../wire/json.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode, UsageError } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { renderTable } from './text-table.ts'

export const registerVerify: RegisterCommand = (program, run) => {
  program
    .command('verify')
    .summary('check receipts')
    .description(
      'Checks receipts without trusting the service: the signature, the charge recomputed from use and prices, what was authorized and, with --rpc-url, the transfer on chain. Exit code 1 when one does not verify.',
    )
    .argument('<receipt...>', 'ids, or files: a saved receipt, or the a.receipt.json of a transcript')
    .option('--token <token>', 'opens a receipt that the journal does not have')
    .addHelpText(
      'after',
      examples([
        ['farebox verify interviews/*.receipt.json --rpc-url https://your-node.example', 'all of a folder'],
        ['farebox verify 0b0f6a3e-8d0c-4a7b-9f5e-2f1d7c1b0a55', 'the id that a call of this machine printed'],
      ]),
    )
    .action(run(verify))
}

async function verify(
  context: CommandContext,
  given: readonly string[],
  { token }: { readonly token?: string },
): Promise<ExitCode> {
  if (token !== undefined && given.length > 1) throw new UsageError('--token opens one receipt: name one id.')
  const { output, signal } = context
  const farebox = await context.farebox()
  const failures: unknown[] = []
  let isValid = true
  for (const each of given) {
    signal.throwIfAborted()
    try {
      for (const receipt of await receiptsOf(each)) {
        const verification = await farebox.verify(receipt, { receiptToken: token, signal })
        isValid &&= verification.outcome === 'passed'
        const { receiptId, outcome, checks } = verification
        output.result({ receiptId, outcome, checks }, describeVerification(verification))
      }
    } catch (error) {
      failures.push(error)
    }
  }
  for (const failure of failures.slice(0, -1)) output.error(failure)
  if (failures.length > 0) throw failures.at(-1)
  return isValid ? EXIT.done : EXIT.failed
}

/** Returns what to verify: an id or a path as it is, or the receipts of a file that has several. */
async function receiptsOf(given: string): Promise<readonly (string | Wire.Receipt)[]> {
  if (!existsSync(given)) return [given]
  const text = await readFile(given, 'utf8').catch(() => '')
  // Of another file the library says what it should be.
  const value = parseObject(text)
  return Array.isArray(value) && value.length > 0 ? (value as Wire.Receipt[]) : [given]
}

function describeVerification({ receiptId, outcome, checks }: ReceiptVerification): string {
  const rows = checks.map((check) => [OUTCOMES[check.outcome], check.name, check.detail])
  return `${receiptId} ${outcome === 'passed' ? 'is valid' : 'IS NOT VALID'}\n${renderTable(null, rows)}\n`
}

const OUTCOMES = { passed: 'ok', failed: 'FAILED', skipped: 'skipped' } as const
