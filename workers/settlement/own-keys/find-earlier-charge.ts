import type { EarlierSettlement } from '#shared/ledger/settlement/earlier-settlements.ts'
import type { Confirmation, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import type { EarlierCharge } from '../look-up-earlier.ts'
import { sendersOf } from './read-statuses.ts'

/**
 * Determines from the newest block whether an earlier settlement charged the payer. A transfer that is not deep enough
 * yet is `unclear`: settling another authorization as well could charge twice.
 */
export async function findEarlierCharge(
  settler: Settler,
  { known, settledBy, authorization, chargeAmount, transactions, fillers, firstBlock }: EarlierSettlement,
): Promise<EarlierCharge> {
  if (known === 'failed_finally') return 'failed'
  // Only a worker with the facilitator can complete the job with its settlement.
  const charged = settledBy === 'own_key' ? 'charged' : 'unclear'
  if (known === 'charged') return charged
  const evidence = await settler.readEvidence(authorization, sendersOf(transactions), 'newest')
  const statuses: Status[] = []
  // Read after the evidence, so that a transaction that used the nonce by then is found.
  for (const { hash, sender, accountNonce } of transactions)
    statuses.push({ sender, accountNonce, confirmation: await settler.confirm(hash, authorization, chargeAmount) })
  if (statuses.some(({ confirmation }) => confirmation.outcome === 'confirmed')) return charged
  const outcomes = new Set(statuses.map(({ confirmation }) => confirmation.outcome))
  if (evidence.outcome === 'unreachable' || outcomes.has('unreachable') || outcomes.has('transfer_missing'))
    return 'unclear'
  const usedByFillers: AccountNonce[] = []
  for (const filler of fillers)
    if (isMined(await settler.confirm(filler.hash, authorization, chargeAmount))) usedByFillers.push(filler)
  const unexcluded = withoutReverted(statuses, usedByFillers)
  if (!evidence.isNonceUsed) return canStillBeMined(unexcluded, evidence, authorization.deadline) ? 'unclear' : 'failed'
  // The payer invalidated the nonce, unless one of our transactions that the node does not show used it.
  if (statuses.length === 0 || unexcluded.some((status) => !isAfter(status, evidence))) return 'unclear'
  const hashes = transactions.map(({ hash }) => hash)
  return (await settler.findTransfer(hashes, authorization, firstBlock)) === 'missing' ? 'failed' : 'unclear'
}

type ReadEvidence = Extract<SettlementEvidence, { outcome: 'read' }>
/** Of a settlement key; unknown for transactions of a remote facilitator. */
interface AccountNonce {
  readonly sender: `0x${string}` | null
  readonly accountNonce: bigint | null
}
type Status = AccountNonce & { readonly confirmation: Confirmation }

/** Returns whether a transaction without a payment was mined. */
function isMined({ outcome }: Confirmation): boolean {
  return outcome === 'transfer_missing' || isReverted(outcome)
}

function isReverted(outcome: Confirmation['outcome']): boolean {
  return outcome === 'reverted' || outcome === 'batch_reverted'
}

/** Leaves out the transactions that reverted, and those whose account nonce another mined transaction used. */
function withoutReverted(statuses: readonly Status[], usedByFillers: readonly AccountNonce[]): readonly Status[] {
  const reverted = statuses.filter(({ confirmation }) => isReverted(confirmation.outcome))
  const used = new Set([...usedByFillers, ...reverted].map(nonceOf))
  return statuses.filter(
    (status) =>
      !isReverted(status.confirmation.outcome) && (status.accountNonce === null || !used.has(nonceOf(status))),
  )
}

function nonceOf({ sender, accountNonce }: AccountNonce): string {
  return `${sender} ${accountNonce}`
}

/** Returns the first account nonce that was not used up to the block of the evidence; `null` when that is unknown. */
function nextNonceOf({ sender }: AccountNonce, { accountNonceCounts }: ReadEvidence): bigint | null {
  return sender === null ? null : (accountNonceCounts.get(sender) ?? null)
}

/** Returns whether a transaction was not mined up to the block of the evidence. */
function isAfter(status: Status, evidence: ReadEvidence): boolean {
  const next = nextNonceOf(status, evidence)
  return status.accountNonce !== null && next !== null && status.accountNonce >= next
}

/** Returns whether the chain may still execute a transaction, with the payer's nonce unused. */
function canStillBeMined(statuses: readonly Status[], evidence: ReadEvidence, deadline: bigint): boolean {
  if (evidence.chainTime.getTime() > Number(deadline) * 1000) return false
  return statuses.some((status) => {
    const next = nextNonceOf(status, evidence)
    return status.accountNonce === null || next === null || status.accountNonce >= next
  })
}
