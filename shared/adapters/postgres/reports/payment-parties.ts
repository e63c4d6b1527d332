import type { Sql } from '../pool.ts'

/** Whom payments went to and who collected them, as far as the ledger remembers. Addresses are lower case. */
export interface PaymentParties {
  readonly recipients: readonly string[]
  readonly facilitators: readonly string[]
}

/** Read from the authorizations, which are never removed: a settlement that is missing still leaves its parties here. */
export async function readPaymentParties(sql: Sql): Promise<PaymentParties> {
  const { rows } = await sql.query<{ recipient: string; facilitator: string }>(
    `SELECT DISTINCT signed ->> 'payTo' AS recipient, signed ->> 'facilitator' AS facilitator FROM authorizations`,
  )
  return {
    recipients: [...new Set(rows.map(({ recipient }) => recipient))],
    facilitators: [...new Set(rows.map(({ facilitator }) => facilitator))],
  }
}
