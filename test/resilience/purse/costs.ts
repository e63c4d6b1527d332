import { pad, toEventSelector, toFunctionSelector } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { Ledgers } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'

/** What the operator spent without a charge, as seen from outside and as the ledger says. Atomic USDC and wei. */
export interface OperatorCost {
  /** Vendor calls that began and were neither charged nor are owed, at the maximum authorized for each. */
  readonly vendorOutside: bigint
  readonly vendorCalls: number
  /** The same from `uncharged_work`, where a measured usage counts less than the maximum. */
  readonly vendorLedger: bigint
  /** `uncharged_work` of requests that were rejected for what they contain. */
  readonly rejectedLedger: bigint
  /** Jobs whose vendor call was neither charged nor owed, and which the ledger does not count. */
  readonly uncountedJobs: readonly string[]
  /** Jobs whose vendor work the ledger counts although no vendor began. */
  readonly inventedJobs: readonly string[]
  readonly owed: bigint
  /** Gas of mined settlements that reverted, from their receipts. */
  readonly revertedGasWei: bigint
  readonly revertedSettlements: number
  /** Permits that were sent to USDC by themselves. */
  readonly lonePermits: number
  /** `uncharged_work` of reverted settlements, in atomic USDC. */
  readonly revertedGasLedger: bigint
}

const APPROVAL = toEventSelector('event Approval(address indexed owner, address indexed spender, uint256 value)')
const PERMIT_SELECTOR = toFunctionSelector('function permit(address,address,uint256,uint256,uint8,bytes32,bytes32)')

/** Kinds of uncharged work that a vendor did. */
const VENDOR_WORK = new Set(['empty_output', 'unknown_outcome', 'lost_call'])

/** Compares the vendor's call log and the chain with what the ledger calls uncharged. */
export async function readOperatorCost(stack: CampaignStack, ledgers: Ledgers): Promise<OperatorCost> {
  const { database, upstream, clients } = ledgers
  const jobOf = new Map(database.jobs.map((job) => [job.idempotencyKey, job]))
  const keyOf = new Map(clients.calls.map(({ marker, idempotencyKey }) => [marker, idempotencyKey]))
  const maximumOf = new Map(database.authorizations.map(({ id, authorizedMaximum }) => [id, authorizedMaximum]))
  const counted = await stack.sql<{ job_id: string; kind: string; total: string }>(
    'SELECT job_id, kind, sum(amount) AS total FROM uncharged_work GROUP BY job_id, kind',
  )
  const of = (...kinds: readonly string[]) =>
    sum(counted.flatMap(({ kind, total }) => (kinds.includes(kind) ? [total] : [])))
  const countedJobs = new Set(counted.map(({ job_id }) => job_id))
  const workedOn = new Set(upstream.flatMap(({ started, marker }) => (started && marker !== null ? [marker] : [])))
  const uncharged = [...workedOn].flatMap((marker) => {
    const job = jobOf.get(keyOf.get(marker) ?? '')
    return job && job.state === 'failed' ? [job] : []
  })
  const workedJobs = new Set([...workedOn].flatMap((marker) => jobOf.get(keyOf.get(marker) ?? '')?.id ?? []))
  const { total, count } = await revertedGas(stack, ledgers)
  return {
    vendorOutside: uncharged.reduce((sum, { authorizationId }) => sum + (maximumOf.get(authorizationId) ?? 0n), 0n),
    vendorCalls: uncharged.length,
    vendorLedger: of(...VENDOR_WORK, 'replaced_result'),
    inventedJobs: counted
      .filter(({ kind, job_id }) => VENDOR_WORK.has(kind) && !workedJobs.has(job_id))
      .map(({ job_id }) => job_id),
    uncountedJobs: uncharged.filter(({ id }) => !countedJobs.has(id)).map(({ id }) => id),
    rejectedLedger: of('rejected_request'),
    owed: sum(
      (await stack.sql<{ charge_amount: string }>('SELECT charge_amount FROM jobs WHERE is_owed')).map(
        ({ charge_amount }) => charge_amount,
      ),
    ),
    revertedGasWei: total,
    revertedSettlements: count,
    lonePermits: await countLonePermits(stack),
    revertedGasLedger: of('reverted_settlement'),
  }
}

async function revertedGas(stack: CampaignStack, { database }: Ledgers) {
  const { rpcUrl } = stack.info
  const hashes = database.settlements.filter(({ state }) => state === 'reverted').flatMap((entry) => entry.hashes)
  let [total, count] = [0n, 0]
  for (const hash of hashes) {
    const receipt = await callRpc<{ status: string; gasUsed: string; effectiveGasPrice: string } | null>(
      rpcUrl,
      'eth_getTransactionReceipt',
      [hash],
    )
    if (receipt?.status !== '0x0') continue
    total += BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice)
    count += 1
  }
  return { total, count }
}

/** Counts transactions that call USDC directly and approve Permit2 by a permit: nobody else does that in the purse. */
async function countLonePermits({ info: { rpcUrl } }: CampaignStack): Promise<number> {
  const approvals = await callRpc<{ transactionHash: string }[]>(rpcUrl, 'eth_getLogs', [
    { address: DEVNET_ADDRESSES.usdc, fromBlock: '0x0', topics: [APPROVAL, null, pad(DEVNET_ADDRESSES.permit2)] },
  ])
  let count = 0
  for (const { transactionHash } of approvals) {
    const { input } = await callRpc<{ input: string }>(rpcUrl, 'eth_getTransactionByHash', [transactionHash])
    if (input.startsWith(PERMIT_SELECTOR)) count += 1
  }
  return count
}

function sum(amounts: readonly string[]): bigint {
  return amounts.reduce((total, amount) => total + BigInt(amount), 0n)
}
