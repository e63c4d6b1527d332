import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { ReceiptVerification, Wire } from '../../farebox.ts'
import { parseObject } from '../../wire/json.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode, UsageError } from '../exit-codes.ts'
import { type CommandContext, namesWallet, type RegisterCommand } from '../run.ts'
import { renderTable } from './text-table.ts'

export const registerVerify: RegisterCommand = (program, run) => {
  program
    .command('verify')
    .summary('check receipts')
    .description(
      'Checks receipts without trusting the service: the signature, the charge recomputed from use and prices, what was authorized and, with --rpc-url, the transfer on chain. It needs no wallet: with one, the payment has to be its own. Without --url, keys are read from the origin that the receipt names. Exit code 1 when one does not verify.',
    )
    .argument('<receipt...>', 'ids, or files: a saved receipt, or the a.receipt.json of a transcript')
    .option('--token <token>', 'opens a receipt that the journal does not have')
    .option('--result <file>', "the exact bytes of the answer's body, to compare with the receipt's digest")
    .option(
      '--key <key>',
      "the service's key: the x of an Ed25519 JWK (as --key=<x>: it may begin with a dash), or a file with a JWK or a key set (what the service publishes by default)",
    )
    .addHelpText(
      'after',
      examples([
        ['farebox verify interviews/*.receipt.json --rpc-url https://your-node.example', 'all of a folder'],
        ['farebox verify receipt.json --result answer.json', "somebody's receipt, without a wallet"],
        ['farebox verify 0b0f6a3e-8d0c-4a7b-9f5e-2f1d7c1b0a55', 'the id that a call of this machine printed'],
      ]),
    )
    .action(run(verify))
}

interface VerifyFlags {
  readonly token?: string
  readonly result?: string
  readonly key?: string
}

async function verify(
  context: CommandContext,
  given: readonly string[],
  { token, result, key: signingKey }: VerifyFlags,
): Promise<ExitCode> {
  const oneOnly = token === undefined ? '--result' : '--token'
  if ((token ?? result) !== undefined && given.length > 1)
    throw new UsageError(`${oneOnly} is of one receipt: name one.`)
  const { io, output, settings, signal } = context
  const { rpcUrl } = settings
  const resultBody = result === undefined ? undefined : await readResult(result)
  const url = settings.url ?? (await commonOrigin(given))
  if (settings.url === undefined && url !== undefined && signingKey === undefined)
    output.note(`Keys are read from ${url}, which the receipt itself names: make sure that you paid this service.`)
  const farebox = await context.farebox({ needsWallet: false, url })
  const options = {
    receiptToken: token,
    rpcUrl,
    resultBody,
    signingKey,
    isOfAnyone: !namesWallet(settings, io.environment),
    signal,
  }
  const failures: unknown[] = []
  let isValid = true
  for (const each of given) {
    signal.throwIfAborted()
    try {
      for (const receipt of await receiptsOf(each)) {
        const verification = await farebox.verify(receipt, options)
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

async function readResult(path: string): Promise<Uint8Array> {
  return await readFile(path).catch((cause: unknown) => {
    throw new UsageError(`--result ${path} cannot be read (${cause instanceof Error ? cause.message : String(cause)}).`)
  })
}

/** Returns the service that saved receipts name; without any it is a setting. Throws `UsageError` when they name several. */
async function commonOrigin(given: readonly string[]): Promise<string | undefined> {
  const { namedOrigin } = await import('../../receipts/check-receipt.ts')
  const receipts = (await Promise.all(given.map(savedReceipts))).flat()
  const origins = new Set(
    receipts.flatMap(({ signature }) => (typeof signature === 'string' ? (namedOrigin({ signature }) ?? []) : [])),
  )
  if (origins.size > 1)
    throw new UsageError(`The receipts name several services: ${[...origins].join(', ')}. Add --url.`)
  return [...origins][0]
}

async function savedReceipts(path: string): Promise<readonly Partial<Wire.Receipt>[]> {
  if (!existsSync(path)) return []
  const value = parseObject(await readFile(path, 'utf8').catch(() => '')) ?? {}
  return (Array.isArray(value) ? value : [value]) as readonly Partial<Wire.Receipt>[]
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
