import type { AllowanceFailureCode, AllowanceOutcome, SponsoredPermit } from '#shared/jobs/allowance-store.ts'
import type { Sql } from '../pool.ts'
import { stateOf } from './request-allowance.ts'

type Hex = `0x${string}`

interface OutcomeRow {
  readonly id: string
  readonly state: string
  readonly transaction_hash: Hex | null
  readonly block_number: string | null
  readonly failure_code: AllowanceFailureCode | null
}

interface PermitRow extends OutcomeRow {
  readonly owner: Hex
  readonly value: string
  readonly permit_nonce: string
  readonly requested_at: Date
}

const OUTCOME = `id, state, block_number, failure_code,
  CASE WHEN NOT is_granted_elsewhere THEN transaction_hash END AS transaction_hash`
const PERMIT = `${OUTCOME}, owner, value, permit_nonce, requested_at`

export async function findSponsoredPermit(sql: Sql, digest: Hex): Promise<SponsoredPermit | null> {
  const { rows } = await sql.query<PermitRow>({
    name: 'find_sponsored_permit',
    text: `SELECT ${PERMIT} FROM sponsored_permits WHERE digest = $1`,
    values: [digest],
  })
  return rows[0] ? permitFromRow(rows[0]) : null
}

export async function findLatestSponsored(sql: Sql, owner: Hex): Promise<SponsoredPermit | null> {
  const { rows } = await sql.query<PermitRow>({
    name: 'find_latest_sponsored',
    text: `SELECT ${PERMIT} FROM sponsored_permits WHERE owner = $1 ORDER BY requested_at DESC LIMIT 1`,
    values: [owner],
  })
  return rows[0] ? permitFromRow(rows[0]) : null
}

export async function readAllowanceOutcomes(
  sql: Sql,
  allowanceIds: readonly string[],
): Promise<ReadonlyMap<string, AllowanceOutcome>> {
  const { rows } = await sql.query<OutcomeRow>({
    name: 'read_allowance_outcomes',
    text: `SELECT ${OUTCOME} FROM sponsored_permits WHERE id = ANY($1::uuid[])`,
    values: [allowanceIds],
  })
  return new Map(rows.map((row) => [row.id, outcomeFromRow(row)]))
}

function permitFromRow(row: PermitRow): SponsoredPermit {
  return {
    allowanceId: row.id,
    owner: row.owner,
    value: BigInt(row.value),
    nonce: BigInt(row.permit_nonce),
    requestedAt: row.requested_at,
    outcome: outcomeFromRow(row),
  }
}

function outcomeFromRow({ state, transaction_hash, block_number, failure_code }: OutcomeRow): AllowanceOutcome {
  const outcome = stateOf(state)
  if (outcome === 'confirmed' && block_number !== null)
    return { state: outcome, transaction: transaction_hash, blockNumber: BigInt(block_number) }
  if (outcome === 'failed' && failure_code !== null)
    return { state: outcome, code: failure_code, transaction: transaction_hash }
  return { state: 'pending' }
}
