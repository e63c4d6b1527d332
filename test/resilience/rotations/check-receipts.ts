import pLimit from 'p-limit'
import { receiptToken as tokenOfReceipt } from '#shared/payment/receipt.ts'
import { priceDifferences, verifyAsAnyone } from '../../support/payer/verify-receipt.ts'
import type { CampaignStack } from '../stack/stack.ts'

/** Checks that every receipt has to pass; its result is not at hand. */
const REQUIRED = ['signature', 'payment', 'calculation', 'charge', 'maximum', 'transfer'] as const
const AT_ONCE = 4

/** What the receipts of a campaign say, and what is wrong with them. */
export interface CheckedReceipts {
  readonly receipts: number
  readonly receiptProblems: readonly string[]
  readonly catalogVersions: readonly string[]
  readonly recipients: readonly string[]
  readonly facilitators: readonly string[]
  readonly secretIds: readonly string[]
}

interface ReceiptRow {
  readonly id: string
  readonly secret_id: string
  readonly version: string
  readonly pay_to: string
  readonly facilitator: string
}

/**
 * Verifies every receipt as its holder does: signature, charge from usage and prices, prices from the catalog of its
 * version, transfer on chain.
 */
export async function checkReceipts(
  stack: Pick<CampaignStack, 'sql' | 'info'>,
  secrets: Readonly<Record<string, string>>,
): Promise<CheckedReceipts> {
  const rows = await stack.sql<ReceiptRow>(
    `SELECT receipts.id, token_secret_id AS secret_id, body ->> 'catalog_version' AS version, body ->> 'pay_to' AS pay_to,
       settlements.facilitator
     FROM receipts JOIN settlements ON settlements.job_id = receipts.job_id AND settlements.state = 'confirmed'
     ORDER BY receipts.id`,
  )
  const limit = pLimit(AT_ONCE)
  const problems = await Promise.all(rows.map((row) => limit(() => problemsOf(stack, row, secrets))))
  const all = (read: (row: ReceiptRow) => string) => [...new Set(rows.map(read))].toSorted()
  return {
    receipts: rows.length,
    receiptProblems: problems.flat(),
    catalogVersions: all(({ version }) => version),
    recipients: all(({ pay_to: payTo }) => payTo),
    facilitators: all(({ facilitator }) => facilitator),
    secretIds: all(({ secret_id: id }) => id),
  }
}

async function problemsOf(
  { info }: Pick<CampaignStack, 'info'>,
  { id, secret_id: secretId }: ReceiptRow,
  secrets: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const receiptToken = tokenOfReceipt(id, { id: secretId, secret: secrets[secretId] ?? '' })
  const { checks, receipt } = await verifyAsAnyone(info, id, { receiptToken })
  const passed = new Set(checks.filter(({ outcome }) => outcome === 'passed').map(({ name }) => name))
  return [
    ...(await priceDifferences(info.baseUrl, receipt)).map((difference) => `${id}: ${difference}`),
    ...REQUIRED.filter((name) => !passed.has(name)).map(
      (name) => `${id}: ${name}: ${checks.find((check) => check.name === name)?.detail ?? 'not checked'}`,
    ),
  ]
}
