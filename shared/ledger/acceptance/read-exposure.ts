import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Exposure, PayerFunds } from '#shared/payment/exposure.ts'
import { columnsOf, listed } from '../listed.ts'
import { LOSS_WINDOW_SECONDS } from '../new-payer-exposure.ts'
import type { Sql } from '../pool.ts'

/** Whose exposure is read, and which part of it. */
export interface ExposureQuestion {
  readonly payer: string
  readonly funds: PayerFunds | null
  /** `null` with `before`: charges count that settled since that job was accepted. */
  readonly verifiedMsAgo: number | null
  /** Leaves out this job and waiting jobs accepted after it. */
  readonly before: { readonly id: string } | null
  readonly windowSeconds: number
  /** Sums up the payer's settled charges until they reach this amount; `null` to leave them out. */
  readonly paidUpTo: AtomicAmount | null
}

/** What a payer has open, owes, and caused without a charge. */
export interface PayerExposure extends Exposure {
  /** Whether a result of theirs is withheld until they pay for it. */
  readonly owes: boolean
  /** The payer's uncharged work of the last `windowSeconds`, without calls that the service lost. */
  readonly uncharged: AtomicAmount
  /** The same of the time in which losses count. */
  readonly lost: AtomicAmount
  /** What the payer's settled charges reach; all of them, if that is less than `paidUpTo`. `null` without that. */
  readonly paid: AtomicAmount | null
}

interface ExposureRow {
  amount: string
  /** `null` in the one row with the total of settled charges. */
  nonce: string | null
  by_permit: boolean
  lasting_value: string | null
  lasting_nonce: string | null
  is_settling: boolean
  owes: boolean | null
  uncharged: string | null
  lost: string | null
  paid: string | null
}

/**
 * Charges settled since the reading of the funds or, without one, since the verification, or since the job was accepted, which
 * came before it and is a time of the database's own: only one of them is asked for, and the others are `null`, after which
 * nothing is. `OFFSET 0` makes the planner start from the payer's few jobs: without table statistics it would read all
 * settlements.
 */
const SETTLED_SINCE = `SELECT charge_amount FROM settlements
    WHERE payer = asked.payer AND state = 'confirmed' AND block_number > asked.since_block
  UNION ALL
  SELECT paid.charge_amount FROM jobs CROSS JOIN LATERAL (
    SELECT charge_amount FROM settlements
    WHERE settlements.authorization_id = jobs.authorization_id AND settlements.state = 'confirmed' OFFSET 0) AS paid
  WHERE jobs.payer = asked.payer AND jobs.finished_at >= CASE WHEN asked.since_block IS NULL THEN coalesce(
    now() - make_interval(secs => asked.since_ms / 1000),
    (SELECT mine.accepted_at FROM jobs AS mine WHERE mine.id = asked.ahead_of)) END`

/** Ends at the settlement that reaches the amount: a payer may have millions. */
const paidBy = (payer: string, upTo: string) => `coalesce(
    (SELECT reached FROM (
      SELECT sum(charge_amount) OVER (ROWS UNBOUNDED PRECEDING) AS reached FROM settlements
      WHERE payer = ${payer} AND state = 'confirmed') AS sums WHERE reached >= ${upTo} LIMIT 1),
    (SELECT sum(charge_amount) FROM settlements WHERE payer = ${payer} AND state = 'confirmed'), 0)`

/** As `lastingPermitOf`. */
const lasting = (field: 'amount' | 'nonce') => `CASE
    WHEN (signed #>> '{gasSponsoring,amount}')::numeric > authorized_maximum THEN signed #>> '{gasSponsoring,${field}}' END`

/** The exposure of one row of `asked`. */
const EXPOSURE_OF_ASKED = `
  SELECT CASE WHEN state IN ('accepted', 'generating') THEN authorized_maximum ELSE charge_amount END AS amount,
    nonce, permit_nonce IS NOT NULL AS by_permit, ${lasting('amount')} AS lasting_value,
    ${lasting('nonce')} AS lasting_nonce,
    state = 'settling' AS is_settling,
    NULL::boolean AS owes, NULL::numeric AS uncharged, NULL::numeric AS lost, NULL::numeric AS paid
  FROM jobs JOIN authorizations ON authorizations.id = jobs.authorization_id
  WHERE jobs.payer = asked.payer AND finished_at IS NULL
    AND (asked.ahead_of IS NULL OR (jobs.id <> asked.ahead_of AND (state <> 'accepted' OR (jobs.accepted_at, jobs.id)
      < (SELECT mine.accepted_at, mine.id FROM jobs AS mine WHERE mine.id = asked.ahead_of))))
  UNION ALL
  SELECT coalesce(sum(charge_amount), 0), NULL, NULL, NULL, NULL, NULL,
    EXISTS (SELECT FROM jobs WHERE payer = asked.payer AND is_owed),
    (SELECT coalesce(sum(amount), 0) FROM uncharged_work
      WHERE payer = asked.payer AND kind <> 'lost_call' AND created_at > now() - make_interval(secs => asked.window_seconds)),
    (SELECT coalesce(sum(amount), 0) FROM uncharged_work WHERE payer = asked.payer AND kind <> 'lost_call'
      AND created_at > now() - make_interval(secs => ${LOSS_WINDOW_SECONDS})),
    CASE WHEN asked.paid_up_to IS NOT NULL THEN ${paidBy('asked.payer', 'asked.paid_up_to')} END
  FROM (${SETTLED_SINCE}) AS settled`

const ASKED = {
  payer: 'text',
  ahead_of: 'uuid',
  since_block: 'numeric',
  since_ms: 'float8',
  window_seconds: 'float8',
  paid_up_to: 'numeric',
}
const EXPOSURE = 'amount, nonce, by_permit, lasting_value, lasting_nonce, is_settling, owes, uncharged, lost, paid'

/** Ages are rounded up to this, so that payments that were verified at about the same time share a reading. */
const AGE_STEP_MS = 10

function askedValues({ payer, funds, verifiedMsAgo, before, windowSeconds, paidUpTo }: ExposureQuestion) {
  const sinceMs = funds || verifiedMsAgo === null ? null : Math.ceil(verifiedMsAgo / AGE_STEP_MS) * AGE_STEP_MS
  const sinceBlock = funds?.blockNumber.toString() ?? null
  return [payer, before?.id ?? null, sinceBlock, sinceMs, windowSeconds, paidUpTo?.toString() ?? null] as const
}

/**
 * Reads exposures in one statement, equal ones once. Returns each with its question. With `before`, that job and waiting jobs
 * accepted after it are left out. Open work counts with its signed maximum, or with its charge once that is fixed. Charges
 * settled after the block of `funds` are added, since they are still in that balance; without a reading of funds, charges
 * settled within `verifiedMsAgo`, or since `before` was accepted.
 */
export async function readExposures(
  sql: Sql,
  questions: readonly ExposureQuestion[],
): Promise<ReadonlyMap<ExposureQuestion, PayerExposure>> {
  const keys = questions.map((question) => askedValues(question).join())
  const different = [...new Map(questions.map((question, index) => [keys[index], askedValues(question)]))]
  const { rows } = await sql.query<ExposureRow & { ordinal: number }>({
    name: 'read_exposures',
    text: `SELECT ordinal::int, ${EXPOSURE}
     FROM ${listed(...Object.values(ASKED))} WITH ORDINALITY AS asked (${Object.keys(ASKED).join(', ')}, ordinal)
     CROSS JOIN LATERAL (${EXPOSURE_OF_ASKED}) AS exposure`,
    values: columnsOf(different.map(([, values]) => values)),
  })
  const rowsOf = Map.groupBy(rows, ({ ordinal }) => ordinal)
  const exposures = new Map(different.map(([key], index) => [key, exposureFromRows(rowsOf.get(index + 1) ?? [])]))
  return new Map(questions.map((question, index) => [question, exposures.get(keys[index]) ?? exposureFromRows([])]))
}

/** Returns what the payer's settled charges reach; all of them, if that is less than `upTo`. */
export async function readPaid(sql: Sql, payer: string, upTo: AtomicAmount): Promise<AtomicAmount> {
  const { rows } = await sql.query<{ paid: string }>({
    name: 'read_paid',
    text: `SELECT ${paidBy('$1::text', '$2::numeric')} AS paid`,
    values: [payer, upTo.toString()],
  })
  return atomicAmount(BigInt(rows[0]?.paid ?? 0))
}

function exposureFromRows(rows: readonly ExposureRow[]): PayerExposure {
  const settled = rows.find(({ nonce }) => nonce === null)
  return {
    open: rows.flatMap(({ nonce, amount, by_permit, lasting_value, lasting_nonce, is_settling }) =>
      nonce === null
        ? []
        : [
            {
              nonce: BigInt(nonce),
              amount: atomicAmount(BigInt(amount)),
              byPermit: by_permit,
              lasting:
                lasting_value === null || lasting_nonce === null
                  ? null
                  : { amount: BigInt(lasting_value), nonce: BigInt(lasting_nonce) },
              isSettling: is_settling,
            },
          ],
    ),
    settledSince: atomicAmount(BigInt(settled?.amount ?? 0)),
    owes: settled?.owes ?? false,
    uncharged: atomicAmount(BigInt(settled?.uncharged ?? 0)),
    lost: atomicAmount(BigInt(settled?.lost ?? 0)),
    paid: settled?.paid ? atomicAmount(BigInt(settled.paid)) : null,
  }
}
