import type { Hex } from 'viem'

/** One line of the report: a label with what it says. */
export type ReportLine = readonly [label: string, ...texts: string[]]

/** What a request needs, after everything that can be read has been checked. */
export interface Plan {
  readonly report: readonly ReportLine[]
  /** `null` when the chain is as requested already. */
  readonly transaction: PlannedTransaction | null
  /** Reads the chain after the transaction. Throws `Refusal` when it is not as requested. */
  readonly confirm: () => Promise<readonly ReportLine[]>
}

export interface PlannedTransaction {
  readonly to: Hex
  readonly data: Hex
  /** The only account whose transaction succeeds; `null` when it may be any. */
  readonly from: Hex | null
  readonly purpose: string
}
