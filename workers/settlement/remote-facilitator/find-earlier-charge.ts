import type { EarlierSettlement } from '#shared/adapters/postgres/settlement/earlier-settlements.ts'
import type { RemoteFacilitator } from '#shared/payment/remote-facilitator.ts'
import type { EarlierCharge } from '../look-up-earlier.ts'

/**
 * Determines from the chain whether an earlier settlement charged the payer. Of an open authorization only the
 * transactions that the facilitator named are known: one that is not mined yet is `unclear`.
 */
export async function findEarlierCharge(
  facilitator: Pick<RemoteFacilitator, 'find' | 'confirm'>,
  { known, authorization, chargeAmount, transactions, firstBlock }: EarlierSettlement,
): Promise<EarlierCharge> {
  if (known === 'charged') return 'charged'
  if (known === 'failed_finally') return 'failed'
  const finding = await facilitator.find(authorization, chargeAmount, firstBlock)
  switch (finding.outcome) {
    case 'found':
      return 'charged'
    case 'expired':
    case 'burned':
      return 'failed'
    case 'unexplained':
    case 'unreachable':
      return 'unclear'
    case 'open': {
      const outcomes = await Promise.all(
        transactions.map(async ({ hash }) => (await facilitator.confirm(hash, authorization, chargeAmount)).outcome),
      )
      if (outcomes.includes('confirmed')) return 'charged'
      return outcomes.every((outcome) => outcome === 'reverted' || outcome === 'transfer_missing')
        ? 'failed'
        : 'unclear'
    }
  }
}
