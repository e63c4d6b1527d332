import pLimit from 'p-limit'
import { receiptToken } from '#shared/payment/receipt.ts'
import { verifyReceipt } from '../../../infra/commands/verify-receipt/main.ts'
import type { CampaignStack } from '../stack/stack.ts'

/** Checks that every receipt has to pass; its result is not at hand. */
const REQUIRED = ['signature', 'calculation', 'charge', 'maximum', 'prices', 'transaction', 'transfer', 'block']
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
  { id, secret_id: secretId, version }: ReceiptRow,
  secrets: Readonly<Record<string, string>>,
): Promise<readonly string[]> {
  const catalog = await fetch(`${info.baseUrl}/v1/catalogs/${version}`)
  const { catalog_version: found } = (await catalog.json()) as { catalog_version?: string }
  const token = receiptToken(id, { id: secretId, secret: secrets[secretId] ?? '' })
  const checks = await verifyReceipt({ url: info.baseUrl, id, token, rpc: info.rpcUrl }, () => undefined)
  const passed = checks.filter(({ outcome }) => outcome === 'passed').map(({ check }) => check)
  return [
    ...(found === version ? [] : [`${id}: GET /v1/catalogs/${version} answers ${catalog.status}`]),
    ...REQUIRED.filter((name) => !passed.includes(name)).map(
      (name) => `${id}: ${name}: ${checks.find(({ check }) => check === name)?.detail ?? 'not checked'}`,
    ),
  ]
}
