import { privateKeyToAccount } from 'viem/accounts'
import type { TestLedger } from '../../support/ledger/test-ledger.ts'
import { createChainPayer } from '../../support/payer/chain-payer.ts'
import { type FreshChain, startFreshChain } from './fresh-chain.ts'
import { type Outcomes, prepareOurs, prepareSdk } from './settle-all.ts'

const PAYMENTS = 100
const FUNDS = 1_000_000n

export interface BadPaymentsResult {
  readonly contestant: 'ours' | 'SDK'
  readonly outcomes: Outcomes
  readonly transfers: number
  /** The chain's count of the key; a transaction that was reverted counts too. */
  readonly accountNonceCount: number
  /** The ledger's next account nonce; `null` where there is no ledger. Equal to the count when nothing is missing. */
  readonly nextAccountNonce: number | null
  readonly waitingInPool: number
}

/**
 * A hundred settlements at once from one key. Of three the payer has, after the work was done, revoked his approval, spent his
 * money, or burned the nonce.
 */
export async function measureBadPayments(
  ledger: TestLedger,
  contestant: 'ours' | 'SDK',
  blockTimeSeconds: number | null,
): Promise<BadPaymentsResult> {
  const chain = await startFreshChain(1, null)
  try {
    const facilitator = facilitatorOf(chain)
    const [revoker, spender, burner] = await Promise.all([0, 1, 2].map(() => createChainPayer(chain.devnet, FUNDS)))
    if (!revoker || !spender || !burner) throw new Error('three payers were asked for')
    const good = await chain.sign(PAYMENTS - 3)
    const bad = []
    for (const payer of [revoker, spender, burner]) {
      await payer.approve()
      bad.push(await payer.sign({ gasSponsored: false, facilitator }))
    }
    const [, , burned] = bad
    if (!burned) throw new Error('three payments were signed')
    // Spread among the others, so that good ones come behind them.
    const authorizations = [...good]
    for (const [index, authorization] of bad.entries()) authorizations.splice(20 + index * 25, 0, authorization)
    const { settleAll } =
      contestant === 'ours' ? await prepareOurs(ledger, chain, authorizations) : prepareSdk(chain, authorizations)
    await revoker.approve(0n)
    await spender.spend(FUNDS)
    await burner.invalidateNonce(burned.nonce)
    if (blockTimeSeconds !== null) await chain.mineEvery(blockTimeSeconds)
    const outcomes = await settleAll(PAYMENTS)
    const [row] = await ledger.sql<{ next_account_nonce: string }>(
      'SELECT next_account_nonce FROM settlement_accounts WHERE facilitator = $1',
      [facilitator.toLowerCase()],
    )
    const { devnet } = chain
    return {
      contestant,
      outcomes,
      transfers: (await devnet.transfersTo(devnet.accounts.recipient.address)).length,
      accountNonceCount: await devnet.client.getTransactionCount({ address: facilitator }),
      nextAccountNonce: row ? Number(row.next_account_nonce) : null,
      waitingInPool: await chain.readPool(),
    }
  } finally {
    await chain.devnet.stop()
  }
}

function facilitatorOf({ keys: [key] }: FreshChain): `0x${string}` {
  if (!key) throw new Error('the chain has no settlement key')
  return privateKeyToAccount(key).address
}
