import type { Sql } from '../pool.ts'

/** Addresses are lower case. */
export interface PaymentParties {
  readonly recipients: readonly string[]
  /** Settlement keys and settlement contracts. */
  readonly facilitators: readonly string[]
}

/** The columns of the index authorizations_by_parties. */
const [RECIPIENT, FACILITATOR] = ["(signed ->> 'payTo')", "(signed ->> 'facilitator')"]

/**
 * Reads the parties from the authorizations, which are never deleted, so that those of a missing settlement are
 * included. A payment that was signed for a settlement contract names no key; the accounts name the keys that send batches.
 *
 * Goes from one pair of parties to the next by the index, so that it reads as many rows as there are pairs.
 */
export async function readPaymentParties(sql: Sql): Promise<PaymentParties> {
  const { rows } = await sql.query<{ recipient: string | null; facilitator: string }>(
    `WITH RECURSIVE parties AS (
       (SELECT ${RECIPIENT} AS recipient, ${FACILITATOR} AS facilitator FROM authorizations ORDER BY 1, 2 LIMIT 1)
       UNION ALL
       SELECT next.recipient, next.facilitator FROM parties, LATERAL (
         SELECT ${RECIPIENT} AS recipient, ${FACILITATOR} AS facilitator FROM authorizations
         WHERE (${RECIPIENT}, ${FACILITATOR}) > (parties.recipient, parties.facilitator) ORDER BY 1, 2 LIMIT 1) AS next)
     SELECT recipient, facilitator FROM parties
     UNION SELECT NULL, facilitator FROM settlement_accounts`,
  )
  return {
    recipients: [...new Set(rows.flatMap(({ recipient }) => recipient ?? []))],
    facilitators: [...new Set(rows.map(({ facilitator }) => facilitator))],
  }
}
