import type { BlockReader } from '#shared/chain/reading/block-reader.ts'
import type { BlockWatch } from '#shared/chain/reading/block-watch.ts'
import type { GasReader } from '#shared/chain/settlement/gas-reader.ts'
import type { SettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { SettlementBatches } from './own-keys/settlement-batches.ts'

/** What the settlement of a job depends on, whoever sends the transaction. */
export interface SettlementDependencies {
  readonly settlementStore: SettlementStore
  readonly blockWatch: BlockWatch
  readonly receiptSecretId: string
  readonly now: () => Date
  readonly logger: Logger
}

/** What batches depend on. */
export interface BatchDependencies {
  readonly settlementStore: SettlementStore
  readonly settler: Settler
  readonly accounts: SettlementAccounts
  readonly blockWatch: BlockWatch
  /** The gas limit of a batch; lower while its key has little gas. A payment that needs more goes alone. */
  readonly maximumBatchGas: bigint
  readonly logger: Logger
}

/** With settlement keys of our own. */
export interface KeySettlementDependencies extends SettlementDependencies {
  readonly settler: Settler
  readonly batches: SettlementBatches
  /** Longest time without reading the receipts of a settlement, when no block brings news of it. Default 2,500. */
  readonly unaskedMs?: number
}

/** Through a remote facilitator. */
export interface RemoteSettlementDependencies extends SettlementDependencies {
  readonly facilitator: RemoteFacilitator
}

/** What watches settlements beyond their jobs. */
export interface SettlementWatchDependencies {
  readonly settlementStore: SettlementStore
  readonly settler: Settler
  readonly accounts: SettlementAccounts
  readonly blocks: BlockReader
  readonly gas: GasReader
  readonly network: string
  readonly feeBumpAfterMs: number
  readonly nativeTokenUsd: number
  readonly logger: Logger
}
