import type { Sql } from '../pool.ts'

/** All recipients and facilitators of payments in the ledger. Addresses are lower case. */
export interface PaymentParties {
  readonly recipients: readonly string[]
  readonly facilitators: readonly string[]
}

/**
 * Reads the parties from the authorizations, which are never deleted, so that those of a missing settlement are
 * included.
 */
export async function readPaymentParties(sql: Sql): Promise<PaymentParties> {
  const { rows } = await sql.query<{ recipient: string; facilitator: string }>(
    `SELECT DISTINCT signed ->> 'payTo' AS recipient, signed ->> 'facilitator' AS facilitator FROM authorizations`,
  )
  return {
    recipients: [...new Set(rows.map(({ recipient }) => recipient))],
    facilitators: [...new Set(rows.map(({ facilitator }) => facilitator))],
  }
}
