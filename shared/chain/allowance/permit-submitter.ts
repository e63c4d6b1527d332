import { type Hex, isAddressEqual, keccak256, type Log, type PublicClient, parseEventLogs } from 'viem'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import type { Broadcast, GasSpent, SignedTransaction } from '#shared/payment/facilitator.ts'
import { CHAIN_ID, PERMIT2_ADDRESS, USDC_ADDRESS, usdcAbi } from '../network/contracts.ts'
import { readConfirmedBlock } from '../reading/confirmed-block.ts'
import { createLatestBlock, type LatestBlock } from '../reading/latest-block.ts'
import { broadcast } from '../settlement/broadcast.ts'
import { createConfirmTransaction } from '../settlement/confirm-transaction.ts'
import { createFeeEstimator, type FeeEstimator } from '../settlement/fee-estimator.ts'
import { settlementKeys } from '../signing/settlement-keys.ts'
import { facilitatorOf } from './facilitator-of.ts'
import { PERMIT_GAS, permitCall, simulatePermit } from './permit-call.ts'
import type { AllowanceReading } from './read-owner.ts'
import { readOwner } from './read-owner.ts'

/** Fees that are fixed before signing. */
interface PermitTerms {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

export type PreparedPermit =
  | { readonly outcome: 'ready'; readonly terms: PermitTerms }
  | { readonly outcome: 'refused'; readonly reason: string }
  /** The reserved gas does not pay for the next block's base fee. */
  | { readonly outcome: 'underpriced' }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** A mined transaction of a permit's account nonce, deep enough. */
interface Mined {
  readonly blockNumber: bigint
  readonly blockHash: Hex
  readonly gas: GasSpent
  readonly costWei: bigint
}

export type PermitConfirmation =
  /** The transaction succeeded and set the allowance to the permit's value. */
  | ({ readonly outcome: 'confirmed' } & Mined)
  | ({ readonly outcome: 'reverted' } & Mined)
  /** The transaction succeeded without setting the allowance: a filler. */
  | ({ readonly outcome: 'event_missing' } & Mined)
  | { readonly outcome: 'pending'; readonly isMined?: true }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** The state of an owner and of the account that submits the permit, at one block as deep as a confirmation must be. */
export type PermitEvidence =
  | ({ readonly outcome: 'read'; readonly accountNonceCount: bigint } & Omit<AllowanceReading, 'hasCode'>)
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Submits permits with the settlement keys, so only workers use it. */
export interface PermitSubmitter {
  /** Returns the settlement key that submits this owner's permits: always the same one of the configured keys. */
  facilitatorOf(owner: Hex): Hex
  /** Simulates the permit with what it would be sent with, at most `reservedGasWei`. Changes nothing. */
  prepare(permit: AllowancePermit, reservedGasWei: bigint): Promise<PreparedPermit>
  /** Computed locally, so it may run inside a database transaction. */
  sign(permit: AllowancePermit, terms: PermitTerms, accountNonce: bigint): Promise<SignedTransaction>
  /** Broadcasts the raw transaction. Succeeds if the network already has it. */
  broadcast(transaction: SignedTransaction): Promise<Broadcast>
  confirm(hash: Hex, permit: AllowancePermit): Promise<PermitConfirmation>
  readEvidence(owner: Hex, facilitator: Hex): Promise<PermitEvidence>
}

export interface PermitSubmitterOptions {
  readonly confirmations?: number
  readonly estimateFees?: FeeEstimator
  readonly nativeTokenUsd?: number
  readonly latest?: LatestBlock
}

/** Creates the submitter of permits with `privateKeys`. */
export function createPermitSubmitter(
  client: PublicClient,
  privateKeys: readonly Hex[],
  {
    confirmations = 1,
    estimateFees = createFeeEstimator(client),
    nativeTokenUsd,
    latest = createLatestBlock(client),
  }: PermitSubmitterOptions = {},
): PermitSubmitter {
  const keys = settlementKeys(privateKeys)
  const confirm = createConfirmTransaction(client, confirmations, nativeTokenUsd, latest)
  const keyOf = (owner: Hex) => facilitatorOf(owner, keys.facilitators)
  return {
    facilitatorOf: keyOf,
    prepare: async (permit, reservedGasWei) => {
      try {
        return await prepare(client, permit, keyOf(permit.owner), reservedGasWei, estimateFees)
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    sign: async (permit, terms, accountNonce) => {
      const raw = keys.signTransaction(keyOf(permit.owner), {
        type: 'eip1559',
        chainId: CHAIN_ID,
        nonce: Number(accountNonce),
        gas: PERMIT_GAS,
        ...terms,
        ...permitCall(permit),
      })
      return { raw, hash: keccak256(raw) }
    },
    broadcast: (transaction) => broadcast(client, transaction),
    confirm: (hash, permit) =>
      confirm(hash, {
        isIn: ({ logs }) => hasApproval(logs, permit),
        isIndexed: async ({ transactionHash, blockNumber }) => {
          const approvals = await readApprovals(client, permit, blockNumber)
          return hasApproval(
            approvals.filter((log) => log.transactionHash === transactionHash),
            permit,
          )
        },
      }),
    readEvidence: (owner, facilitator) => readEvidence(client, owner, facilitator, confirmations),
  }
}

async function prepare(
  client: PublicClient,
  permit: AllowancePermit,
  facilitator: Hex,
  reservedGasWei: bigint,
  estimateFees: FeeEstimator,
): Promise<PreparedPermit> {
  const { maxFeePerGas: estimated, maxPriorityFeePerGas: tip, baseFeePerGas } = await estimateFees()
  const affordable = reservedGasWei / PERMIT_GAS
  const maxFeePerGas = estimated < affordable ? estimated : affordable
  if (maxFeePerGas < baseFeePerGas) return { outcome: 'underpriced' }
  const terms = { maxFeePerGas, maxPriorityFeePerGas: tip < maxFeePerGas ? tip : maxFeePerGas }
  const simulated = await simulatePermit(client, permit, facilitator, terms)
  return simulated.outcome === 'valid' ? { outcome: 'ready', terms } : simulated
}

/** Reads every Approval of the owner for Permit2 in one block, of any value, from the log index. */
function readApprovals(client: PublicClient, { owner }: AllowancePermit, blockNumber: bigint) {
  return client.getContractEvents({
    address: USDC_ADDRESS,
    abi: usdcAbi,
    eventName: 'Approval',
    args: { owner, spender: PERMIT2_ADDRESS },
    strict: true,
    fromBlock: blockNumber,
    toBlock: blockNumber,
  })
}

function hasApproval(logs: readonly Log[], { owner, value }: AllowancePermit): boolean {
  return parseEventLogs({ abi: usdcAbi, eventName: 'Approval', logs: [...logs] }).some(
    ({ address, args }) =>
      isAddressEqual(address, USDC_ADDRESS) &&
      isAddressEqual(args.owner, owner) &&
      isAddressEqual(args.spender, PERMIT2_ADDRESS) &&
      args.value === value,
  )
}

/** Reads owner and account nonce at one block. */
async function readEvidence(
  client: PublicClient,
  owner: Hex,
  facilitator: Hex,
  confirmations: number,
): Promise<PermitEvidence> {
  try {
    const { hash } = await readConfirmedBlock(client, confirmations)
    const [count, reading] = await Promise.all([
      client.getTransactionCount({ address: facilitator, blockHash: hash, requireCanonical: true }),
      readOwner(client, owner, hash),
    ])
    return { outcome: 'read', accountNonceCount: BigInt(count), ...reading }
  } catch (cause) {
    return { outcome: 'unreachable', cause }
  }
}
