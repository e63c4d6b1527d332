/** The open amount of one payer, in atomic USDC. */
export interface PayerAmount {
  readonly payer: string
  readonly count: number
  readonly totalAtomic: bigint
}

/** Sums over all payers, and the payers with the largest amounts. */
export interface PayerAmounts {
  readonly count: number
  readonly totalAtomic: bigint
  readonly payers: number
  readonly greatest: readonly PayerAmount[]
}

export const SHOWN_PAYERS = 20

/** One payer's sums; every row repeats the sums over all payers. */
export interface PayerAmountRow {
  readonly payer: string
  readonly count: number
  readonly total: string
  readonly payers: number
  readonly all_count: number
  readonly all_total: string
}

export function payerAmounts(rows: readonly PayerAmountRow[]): PayerAmounts {
  const [first] = rows
  return {
    count: first?.all_count ?? 0,
    totalAtomic: BigInt(first?.all_total ?? 0),
    payers: first?.payers ?? 0,
    greatest: rows.map(({ payer, count, total }) => ({ payer, count, totalAtomic: BigInt(total) })),
  }
}
