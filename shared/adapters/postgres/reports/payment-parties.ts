import type { Sql } from '../pool.ts'

/** Addresses are lower case. */
export interface PaymentParties {
  readonly recipients: readonly string[]
  /** Settlement keys and settlement contracts. */
  readonly facilitators: readonly string[]
}

/**
 * Reads the parties from the authorizations, which are never deleted, so that those of a missing settlement are
 * included. A payment that was signed for a settlement contract names no key; the accounts name the keys that send batches.
 */
export async function readPaymentParties(sql: Sql): Promise<PaymentParties> {
  const { rows } = await sql.query<{ recipient: string | null; facilitator: string }>(
    `SELECT DISTINCT signed ->> 'payTo' AS recipient, signed ->> 'facilitator' AS facilitator FROM authorizations
     UNION SELECT NULL, facilitator FROM settlement_accounts`,
  )
  return {
    recipients: [...new Set(rows.flatMap(({ recipient }) => recipient ?? []))],
    facilitators: [...new Set(rows.map(({ facilitator }) => facilitator))],
  }
}
