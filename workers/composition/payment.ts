import type { PublicClient } from 'viem'
import { createRemoteFacilitator } from '#shared/adapters/remote-facilitator/facilitator-client.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { maximumFeePerGasWei } from '#shared/catalog/fee-limit.ts'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { openChain } from '#shared/chain/network/open-chain.ts'
import type { RpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import { createBlockReader } from '#shared/chain/reading/block-reader.ts'
import { type BlockWatch, createBlockWatch } from '#shared/chain/reading/block-watch.ts'
import { createChainClock } from '#shared/chain/reading/chain-clock.ts'
import { createLatestBlock } from '#shared/chain/reading/latest-block.ts'
import { createPayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { createSettlementSearch, type SettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { gasOfContracts, UNLIMITED_GAS } from '#shared/chain/settlement-contract/gas-of-contract.ts'
import {
  requirePaymentContracts,
  requireSettlementContract,
} from '#shared/chain/settlement-contract/require-contract.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createGasReader, type GasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createSettlementAccounts, type SettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { createSettler, type VerifySettlement } from '#shared/chain/settlement/settler.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy, type PayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import {
  createSettlementVerification,
  type SettlementVerification,
} from '#shared/chain/verification/settlement-verification.ts'
import type { SettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import { SETTLEMENT_MARGIN_SECONDS } from '#shared/operations/text/output-time.ts'
import { maximumHeadAgeMs } from '#shared/payment/chain-settings.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { WorkerConfig } from '../config.ts'
import type { JobDependencies } from '../job/dependencies.ts'
import type { SettlementWatchDependencies } from '../settlement/dependencies.ts'
import { guardSettlementStore } from '../settlement/failure-guard.ts'
import { gatherBatches } from '../settlement/own-keys/batches.ts'
import { createOwnKeySettlement } from '../settlement/own-keys/settle-with-key.ts'
import type { SettlementBatches } from '../settlement/own-keys/settlement-batches.ts'
import { createRemoteSettlement } from '../settlement/remote-facilitator/settle-remotely.ts'
import { tracedFacilitator, tracedSettlementSteps, tracedSettler } from '../telemetry/traced-ports.ts'

export interface PaymentOptions {
  /** Whether this process serves the settlement queue. */
  readonly settles: boolean
  readonly settlementStore: SettlementStore
  readonly logger: Logger
  readonly tracer: Tracer
  readonly now: () => Date
}

export interface PaymentParts
  extends
    SettlingParty,
    Omit<SettlementWatchDependencies, 'logger'>,
    Pick<JobDependencies, 'payerFunds' | 'chainClock' | 'settlementMarginMs'> {
  readonly settlementSearch: SettlementSearch
  readonly nodes: RpcNodes
  readonly blockWatch: BlockWatch
}

/** The party that verifies and settles: settlement keys of our own, or a remote facilitator. */
interface SettlingParty extends Pick<JobDependencies, 'verifier' | 'gas' | 'settlementSteps'> {
  /** `null` with settlement keys of our own. */
  readonly remote: { readonly facilitator: RemoteFacilitator } | null
  /** `null` with a remote facilitator. */
  readonly batches: SettlementBatches | null
}

/** Composes what checks and settles payments. */
export async function composePayment(config: WorkerConfig, unguarded: PaymentOptions): Promise<PaymentParts> {
  const { chain, nodes } = await openChain(config)
  await requirePaymentContracts(chain)
  const maximumFee = maximumFeePerGasWei(config)
  const estimateFees = createFeeEstimator(chain, maximumFee)
  // Empty with a remote facilitator and where other processes settle: there is no nonce queue to advance and no gas to
  // watch.
  const keys = unguarded.settles ? (config.SETTLEMENT_PRIVATE_KEYS ?? []) : []
  const { SETTLEMENT_CONTRACT: contract } = config
  const accounts = createSettlementAccounts(chain, CHAIN_ID, keys, { estimateFees, maximumFeePerGasWei: maximumFee })
  const { CONFIRMATIONS: confirmations, NATIVE_TOKEN_USD: nativeTokenUsd } = config
  if (contract !== undefined && keys.length > 0) await requireSettlementContract(chain, contract, accounts.facilitators)
  const latest = createLatestBlock(chain)
  const blockWatch = createBlockWatch(latest)
  const settlements = createSettlementVerification(chain, {
    contract,
    sender: accounts.facilitators[0],
    readFees: config.FACILITATOR_URL === undefined ? estimateFees : null,
  })
  const settlerOptions = { confirmations, estimateFees, nativeTokenUsd, latest }
  // Together with the checks before provider calls.
  const verify: VerifySettlement = (...charge) => settlements.verify(...charge)
  const settler = tracedSettler(unguarded.tracer, createSettler(chain, CHAIN_ID, keys, { ...settlerOptions, verify }))
  const payerCode = createPayerCodePolicy(chain, config.ALLOWED_WALLET_CODE)
  const settlementSearch = createSettlementSearch(chain)
  const settlementStore = guardSettlementStore(unguarded.settlementStore, { ...unguarded, settlementSearch })
  const options = { ...unguarded, settlementStore }
  const party =
    config.FACILITATOR_URL === undefined
      ? composeOwnKeys(config, options, {
          chain,
          settler,
          settlements,
          payerCode,
          blockWatch,
          accounts,
          gas: gasOfContracts(chain, createGasReader(chain, estimateFees), settlementKeysOf(accounts, config)),
        })
      : composeRemoteFacilitator(config, options, { chain, url: config.FACILITATOR_URL, payerCode, blockWatch })
  return {
    ...party,
    nodes,
    blockWatch,
    payerFunds: createPayerFundsReader(chain, () => performance.now()),
    chainClock: createChainClock(chain, options.now, maximumHeadAgeMs(config)),
    blocks: createBlockReader(chain),
    settler,
    settlementStore,
    settlementSearch,
    accounts,
    network: `eip155:${CHAIN_ID}`,
    feeBumpAfterMs: config.FEE_BUMP_AFTER_SECONDS * 1000,
    nativeTokenUsd,
    settlementMarginMs: SETTLEMENT_MARGIN_SECONDS * 1000,
  }
}

/** Returns the addresses of the settlement keys: of this process, or of those that settle. */
function settlementKeysOf({ facilitators }: SettlementAccounts, config: WorkerConfig): readonly `0x${string}`[] {
  return facilitators.length > 0 ? facilitators : (config.FACILITATOR_ADDRESSES ?? [])
}

interface Chain {
  readonly chain: PublicClient
  readonly payerCode: PayerCodePolicy
  readonly blockWatch: BlockWatch
}

interface OwnKeys extends Chain {
  readonly settler: Settler
  readonly settlements: SettlementVerification
  readonly accounts: SettlementAccounts
  readonly gas: GasReader
}

function composeOwnKeys(
  { RECEIPT_SECRET_ID: receiptSecretId, SETTLEMENT_BATCH_GAS: maximumBatchGas }: WorkerConfig,
  { settlementStore, logger, tracer, now }: PaymentOptions,
  { chain, settler, settlements, accounts, gas, payerCode, blockWatch }: OwnKeys,
): SettlingParty {
  const settling = { settlementStore, settler, accounts, blockWatch, logger }
  const batches = gatherBatches({ ...settling, maximumBatchGas })
  const steps = createOwnKeySettlement({ ...settling, receiptSecretId, now, batches })
  return {
    verifier: createAuthorizationVerifier(chain, CHAIN_ID, { payerCode, settlements, areAccepted: true }),
    gas,
    settlementSteps: tracedSettlementSteps(tracer, steps),
    remote: null,
    batches,
  }
}

/** How long a remote facilitator may take to settle. */
const REMOTE_SETTLEMENT_MS = 30_000

/** A remote facilitator pays for gas itself and does not report its balance. */
const unlimitedGas: GasReader = { readGas: async () => UNLIMITED_GAS }

function composeRemoteFacilitator(
  config: WorkerConfig,
  { settlementStore, logger, tracer, now }: PaymentOptions,
  { chain, payerCode, blockWatch, url }: Chain & { readonly url: string },
): SettlingParty {
  const { FACILITATOR_API_KEY: apiKey, CONFIRMATIONS: confirmations, RECEIPT_SECRET_ID: receiptSecretId } = config
  const own = createAuthorizationVerifier(chain, CHAIN_ID, { payerCode })
  const facilitator = tracedFacilitator(
    tracer,
    createRemoteFacilitator({ url, apiKey, timeoutMs: REMOTE_SETTLEMENT_MS, confirmations }, chain, own),
  )
  const steps = createRemoteSettlement({ receiptSecretId, now, logger, settlementStore, facilitator, blockWatch })
  return {
    verifier: createRemoteVerifier({ url, apiKey }, own),
    gas: unlimitedGas,
    settlementSteps: tracedSettlementSteps(tracer, steps),
    remote: { facilitator },
    batches: null,
  }
}
