import { expect, it } from 'vitest'
import type { EarlierSettlement } from '#shared/jobs/settlement-store.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Confirmation, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import { findEarlierCharge } from '../../../workers/settlement/own-keys/find-earlier-charge.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const KEY = '0x1111'
const GAS = { gasUsed: 1n, effectiveGasPrice: 1n, cost: atomicAmount(1n) }
const REVERTED: Confirmation = { outcome: 'reverted', blockNumber: 5n, blockHash: '0x05', gas: GAS }
const CONFIRMED: Confirmation = {
  outcome: 'confirmed',
  blockNumber: 5n,
  blockHash: '0x05',
  blockTimestamp: new Date(0),
  gas: GAS,
}
const PENDING: Confirmation = { outcome: 'pending' }

const earlier: EarlierSettlement = {
  settlementId: 'settlement',
  authorizationId: 'authorization',
  authorization: testAuthorization(),
  chargeAmount: atomicAmount(5034n),
  settledBy: 'own_key',
  transactions: [
    { hash: '0x02', sender: KEY, accountNonce: 7n },
    { hash: '0x01', sender: KEY, accountNonce: 7n },
  ],
  fillers: [],
  firstBlock: 1n,
  known: 'failed',
}

/** A settler that reads these confirmations by hash; the payer's nonce is used, and the account's next one is 8. */
function reading(confirmations: Readonly<Record<string, Confirmation>>) {
  const evidence: SettlementEvidence = {
    outcome: 'read',
    blockNumber: 9n,
    blockHash: '0x09',
    accountNonceCounts: new Map([[KEY, 8n]]),
    isNonceUsed: true,
    chainTime: new Date(0),
  }
  return {
    readEvidence: () => Promise.resolve(evidence),
    confirm: (hash: string) => Promise.resolve(confirmations[hash] ?? PENDING),
    findTransfer: () => Promise.resolve('missing'),
  } as unknown as Settler
}

it('excludes a transaction that was replaced by another with the same account nonce, which reverted', async () => {
  expect(await findEarlierCharge(reading({ '0x02': REVERTED }), earlier)).toBe('failed')
})

it('excludes a transaction whose account nonce was used to fill the gap that it left', async () => {
  const filled = { ...earlier, fillers: [{ hash: '0x03', sender: KEY, accountNonce: 7n }] } as const
  const mined: Confirmation = { outcome: 'transfer_missing', blockNumber: 6n }
  expect(await findEarlierCharge(reading({ '0x03': mined }), filled)).toBe('failed')
  expect(await findEarlierCharge(reading({}), filled)).toBe('unclear')
})

it.each([
  ['as a whole', { ...REVERTED, outcome: 'batch_reverted' }],
  ['for this payment', REVERTED],
] as const)('excludes a batch that reverted %s', async (_, confirmation) => {
  expect(await findEarlierCharge(reading({ '0x02': confirmation }), earlier)).toBe('failed')
})

it('excludes nothing by a transaction of another key with the same account nonce', async () => {
  const [newest, oldest] = earlier.transactions
  if (!newest || !oldest) throw new Error('expected two transactions')
  const ofTwoKeys = { ...earlier, transactions: [{ ...newest, sender: '0x2222' }, oldest] } as const
  expect(await findEarlierCharge(reading({ '0x02': REVERTED }), ofTwoKeys)).toBe('unclear')
  const filled = { ...earlier, fillers: [{ hash: '0x03', sender: '0x2222', accountNonce: 7n }] } as const
  const mined: Confirmation = { outcome: 'transfer_missing', blockNumber: 6n }
  expect(await findEarlierCharge(reading({ '0x03': mined }), filled)).toBe('unclear')
})

it('leaves an earlier settlement unclear while one of its transactions may have used the nonce', async () => {
  expect(await findEarlierCharge(reading({}), earlier)).toBe('unclear')
})

it('leaves a settlement by a remote facilitator to the workers that have the facilitator', async () => {
  expect(await findEarlierCharge(reading({ '0x02': CONFIRMED }), { ...earlier, settledBy: 'remote_facilitator' })).toBe(
    'unclear',
  )
  expect(await findEarlierCharge(reading({ '0x02': CONFIRMED }), earlier)).toBe('charged')
})
