import type { RemoteFacilitatorOptions } from '#shared/adapters/remote-facilitator/http-client.ts'
import { readSupportedFacilitators, untilSupported } from '#shared/adapters/remote-facilitator/read-supported.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { GAS_WARNING_SETTLEMENTS, maximumFeePerGasWei } from '#shared/catalog/fee-limit.ts'
import { type AllowanceReader, createAllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import { CHAIN_ID, PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS, USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import { openChain } from '#shared/chain/network/open-chain.ts'
import type { RpcNodes } from '#shared/chain/network/rpc-nodes.ts'
import type { NodeState } from '#shared/chain/network/watched-node.ts'
import { createBalanceReader } from '#shared/chain/reading/balance-reader.ts'
import { createChainClock } from '#shared/chain/reading/chain-clock.ts'
import { createPayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { createScreeningOracle, requireScreeningOracle } from '#shared/chain/reading/screening-oracle.ts'
import { createSettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import {
  requirePaymentContracts,
  requireSettlementContract,
} from '#shared/chain/settlement-contract/require-contract.ts'
import { createFeeEstimator, requireFeesWithinMaximum } from '#shared/chain/settlement/fee-estimator.ts'
import { createChargeGasReader, createGasReader } from '#shared/chain/settlement/gas-reader.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import { createSettlementVerification } from '#shared/chain/verification/settlement-verification.ts'
import { minimumRemainingSeconds } from '#shared/operations/text/output-time.ts'
import { maximumHeadAgeMs } from '#shared/payment/chain-settings.ts'
import { createOfferWriter } from '#shared/payment/offer-receipt.ts'
import { CHALLENGE_LIFETIME_SECONDS, type PaymentTerms } from '#shared/payment/payment-terms.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import { reasonOf } from '#shared/runtime/connection-failure.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { rarely } from '#shared/runtime/rarely.ts'
import { namingSetting } from '#shared/runtime/start-process.ts'
import type { AppDependencies } from '../app.ts'
import type { ApiConfig } from '../config.ts'
import { createRememberedSearch } from '../paid-request/pay/require-unsettled.ts'
import type { ReadinessChecks, ReadinessWarnings } from '../routes/health.ts'

type Hex = `0x${string}`

const NETWORK = `eip155:${CHAIN_ID}`

/**
 * A block is a few seconds old when it is read. A larger skew means that the machine's clock, which deadlines are also
 * checked against, is wrong.
 */
const LARGEST_SKEW_MS = 60_000

type PaymentDependency =
  | 'terms'
  | 'challengeSecrets'
  | 'receiptSecrets'
  | 'signer'
  | 'writeOffer'
  | 'verifier'
  | 'settlementSearch'
  | 'chainClock'
  | 'requireFees'
  | 'readChargeGas'
  | 'payerFunds'
  | 'maximumOpenExposure'
  | 'balances'

export interface PaymentParts {
  readonly dependencies: Pick<AppDependencies, PaymentDependency>
  readonly allowanceReader: AllowanceReader
  readonly nodes: RpcNodes
  /** Asks PAYER_SCREENING_ORACLE about an address; `null` without one. */
  readonly screeningOracle: ((payer: string) => Promise<boolean>) | null
  readonly readinessChecks: ReadinessChecks['shared']
  readonly readinessWarnings: ReadinessWarnings
}

/** Composes what challenges, verifies and looks up payments. No key here can move money. */
export async function composePayment(config: ApiConfig, logger: Logger, now: () => Date): Promise<PaymentParts> {
  const { chain, nodes } = await openChain(config)
  await requirePaymentContracts(chain)
  const oldestHeadMs = maximumHeadAgeMs(config)
  const chainClock = createChainClock(chain, now, oldestHeadMs)
  const estimateFees = createFeeEstimator(chain, maximumFeePerGasWei(config))
  const gas = createGasReader(chain, estimateFees)
  const remote = remoteFacilitator(config)
  const keys = await readKeys(config, remote, logger)
  const { SETTLEMENT_CONTRACT: contract } = config
  if (contract !== undefined) await requireSettlementContract(chain, contract, keys)
  const payerCode = createPayerCodePolicy(chain, config.ALLOWED_WALLET_CODE)
  const settlements = createSettlementVerification(chain, {
    contract,
    sender: keys[0],
    readFees: remote ? null : estimateFees,
  })
  const { PAYER_SCREENING_ORACLE: oracle } = config
  if (oracle !== undefined) await requireScreeningOracle(chain, oracle)
  const own = createAuthorizationVerifier(chain, CHAIN_ID, { payerCode, settlements })
  const signer = createStatementSigner(config.PUBLIC_BASE_URL, config.RECEIPT_SIGNING_KEY)
  return {
    nodes,
    screeningOracle: oracle === undefined ? null : createScreeningOracle(chain, oracle),
    allowanceReader: createAllowanceReader(chain, payerCode),
    dependencies: {
      terms: {
        network: NETWORK,
        asset: USDC_ADDRESS,
        spender: UPTO_PROXY_ADDRESS,
        permit2: PERMIT2_ADDRESS,
        payTo: config.PAY_TO[0],
        acceptedRecipients: config.PAY_TO,
        ...facilitatorsOf(config, keys),
        maxTimeoutSeconds: config.AUTHORIZATION_LIFETIME_SECONDS,
        minimumRemainingSeconds: minimumRemainingSeconds(config),
        outputTokensPerSecond: config.OUTPUT_TOKENS_PER_SECOND,
        challengeLifetimeSeconds: CHALLENGE_LIFETIME_SECONDS,
      },
      challengeSecrets: config.CHALLENGE_SECRET,
      receiptSecrets: config.RECEIPT_SECRETS,
      signer,
      writeOffer: createOfferWriter(signer),
      verifier: remote ? createRemoteVerifier(remote, own) : own,
      settlementSearch: createRememberedSearch(createSettlementSearch(chain)),
      chainClock,
      requireFees: remote ? () => Promise.resolve() : () => requireFeesWithinMaximum(estimateFees),
      readChargeGas: config.MINIMUM_CHARGE_FOLLOWS_GAS
        ? createChargeGasReader(chain, estimateFees, config.NATIVE_TOKEN_USD)
        : null,
      payerFunds: createPayerFundsReader(chain, () => performance.now()),
      maximumOpenExposure: config.MAXIMUM_OPEN_EXPOSURE_USDC,
      balances: createBalanceReader(chain),
    },
    readinessChecks: {
      chain: async () => requireHead(nodes, oldestHeadMs),
      ...(remote && { facilitator: async () => void (await readSupportedFacilitators(remote, NETWORK)) }),
    },
    readinessWarnings: {
      settlement_gas_low: async () => {
        // A remote facilitator watches its own gas.
        const ours = config.FACILITATOR_ADDRESSES ?? []
        const read = await Promise.all(ours.map((facilitator) => gas.readGas(facilitator)))
        return read.some(({ settlementsLeft }) => settlementsLeft < GAS_WARNING_SETTLEMENTS)
      },
      chain_head_old: async () => nodes.readStates().some((state) => isLate(state, oldestHeadMs)),
      clock_skew: async () => Math.abs((await chainClock.skewMs()) ?? 0) > LARGEST_SKEW_MS,
    },
  }
}

/** Throws unless a node of the right chain answered when it was last asked, with a recent block. */
function requireHead(nodes: RpcNodes, oldestHeadMs: number): void {
  const isServing = ({ isAnswering, headAgeMs }: NodeState) => isAnswering && (headAgeMs ?? 0) <= oldestHeadMs
  if (!nodes.readStates().some(isServing)) throw new Error('no node of RPC_URL answers with a recent block')
}

function isLate({ isAnswering, isBehind, headAgeMs }: NodeState, oldestHeadMs: number): boolean {
  return isAnswering && (isBehind || (headAgeMs ?? 0) > oldestHeadMs)
}

function remoteFacilitator({ FACILITATOR_URL: url, FACILITATOR_API_KEY: apiKey }: ApiConfig) {
  return url === undefined ? null : { url, apiKey }
}

/**
 * Returns what challenges name: the settlement contract, or else the keys; and what payments may name, which includes both
 * during a change from one to the other. Beside a contract the keys are for payments of earlier calls, unless the setting
 * names them.
 */
function facilitatorsOf(
  { SETTLEMENT_CONTRACT: contract, ACCEPTED_FACILITATOR_ADDRESSES: accepted }: ApiConfig,
  keys: readonly Hex[],
): Pick<PaymentTerms, 'facilitators' | 'settlementContract' | 'acceptedFacilitators' | 'formerFacilitators'> {
  const facilitators = contract === undefined ? keys : [contract]
  const acceptedForNew = [...facilitators, ...(accepted ?? [])]
  const settlementContract = contract ?? null
  return {
    facilitators,
    settlementContract,
    acceptedFacilitators: [...new Set([...facilitators, ...keys, ...(accepted ?? [])])],
    formerFacilitators: keys.filter((key) => !acceptedForNew.includes(key)),
  }
}

/** Reads the addresses of the settlement keys. Those of a remote facilitator come from it, so the start waits for it. */
async function readKeys(
  { FACILITATOR_ADDRESSES: addresses }: ApiConfig,
  remote: RemoteFacilitatorOptions | null,
  logger: Logger,
): Promise<readonly Hex[]> {
  if (!remote) return addresses ?? []
  const onWait = rarely(
    (error: Error) => logger.warn('FACILITATOR_URL: this process waits for the facilitator', { error }),
    reasonOf,
  )
  return await namingSetting('FACILITATOR_URL', () => untilSupported(remote, NETWORK, onWait))
}
