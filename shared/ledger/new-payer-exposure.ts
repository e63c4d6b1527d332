import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Sql } from './pool.ts'
import { readRows } from './read-rows.ts'

/** How long a loss counts. */
export const LOSS_WINDOW_SECONDS = 86_400

/** What payments have open and lost that were not covered by what their payers had paid before. */
export interface NewPayerExposure {
  /** Unfinished work, at its maximum or at its charge once that is fixed. */
  readonly open: AtomicAmount
  /** Debts and uncharged work of the window. */
  readonly lost: AtomicAmount
  /** Until the oldest of `lost` leaves the window. */
  readonly oldestLeavesInSeconds: number
}

/** The exposure of all networks together, and of each that was asked for. */
export interface NewPayerExposures {
  readonly all: NewPayerExposure
  readonly byNetwork: ReadonlyMap<string, NewPayerExposure>
}

type ExposureRow = Pick<NewPayerExposure, 'open' | 'lost'> & {
  readonly network: string | null
  readonly isAll: boolean
  readonly leavesInSeconds: number | null
}

const NOTHING: NewPayerExposure = {
  open: atomicAmount(0n),
  lost: atomicAmount(0n),
  oldestLeavesInSeconds: LOSS_WINDOW_SECONDS,
}

/**
 * Sums up what new payers have open, owe and caused without a charge. A debt counts while it is younger than the
 * window: otherwise a stranger's unpaid debts would keep new payers out until the withheld results expire.
 */
export async function readNewPayerExposure(sql: Sql, networks: readonly string[] = []): Promise<NewPayerExposures> {
  const rows = await readRows<ExposureRow>(sql, {
    name: 'read_new_payer_exposure',
    text: `SELECT client_network AS network, grouping(client_network) = 1 AS "isAll",
       coalesce(sum(amount) FILTER (WHERE ended_at IS NULL), 0) AS open,
       coalesce(sum(amount) FILTER (WHERE ended_at IS NOT NULL), 0) AS lost,
       extract(epoch FROM min(ended_at) + make_interval(secs => $1) - clock_timestamp())::float8 AS "leavesInSeconds"
     FROM (
       SELECT client_network, coalesce(charge_amount, quoted_maximum) AS amount, finished_at AS ended_at
       FROM jobs WHERE is_new_payer AND (finished_at IS NULL OR is_owed)
         AND (finished_at IS NULL OR finished_at > now() - make_interval(secs => $1))
       UNION ALL
       SELECT client_network, amount, created_at FROM uncharged_work
       WHERE is_new_payer AND created_at > now() - make_interval(secs => $1)) AS exposed
     GROUP BY GROUPING SETS ((), (client_network))
     HAVING grouping(client_network) = 1 OR client_network = ANY($2)`,
    values: [LOSS_WINDOW_SECONDS, networks],
  })
  const all = rows.find(({ isAll }) => isAll)
  return {
    all: all ? exposureOf(all) : NOTHING,
    byNetwork: new Map(
      networks.map((network) => {
        const row = rows.find((one) => !one.isAll && one.network === network)
        return [network, row ? exposureOf(row) : NOTHING]
      }),
    ),
  }
}

function exposureOf({ open, lost, leavesInSeconds }: ExposureRow): NewPayerExposure {
  return { open, lost, oldestLeavesInSeconds: Math.max(1, Math.ceil(leavesInSeconds ?? LOSS_WINDOW_SECONDS)) }
}
