import { privateKeyToAccount } from 'viem/accounts'
import type { TestLedger } from '../../support/ledger/test-ledger.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { type FreshChain, startFreshChain } from './fresh-chain.ts'
import { type Outcomes, prepareOurs, prepareSdk } from './settle-all.ts'

const PAYMENTS = 100
const FUNDS = 1_000_000n

export interface BadPaymentsResult {
  readonly contestant: 'ours' | 'SDK'
  readonly outcomes: Outcomes
  readonly transfers: number
  /** The key's transaction count on chain, reverted transactions included. */
  readonly accountNonceCount: number
  /** The ledger's next account nonce, which equals the count when no transaction is missing; `null` without a ledger. */
  readonly nextAccountNonce: number | null
  readonly waitingInPool: number
}

/**
 * Measures a hundred concurrent settlements from one key. For three of them the payer has, after the work was done, revoked the
 * approval, spent the money, or invalidated the nonce.
 */
export async function measureBadPayments(
  ledger: TestLedger,
  contestant: 'ours' | 'SDK',
  blockTimeSeconds: number | null,
): Promise<BadPaymentsResult> {
  const chain = await startFreshChain(1, null)
  try {
    const facilitator = facilitatorOf(chain)
    const [revoker, spender, burner] = await Promise.all(
      [0, 1, 2].map(() => createPayer(chain.devnet.rpcUrl, { usdcAtomic: FUNDS })),
    )
    if (!revoker || !spender || !burner) throw new Error('expected three payers')
    const settledBy = contestant === 'ours' ? 'contract' : 'keys'
    const good = await chain.sign(PAYMENTS - 3, settledBy)
    const signedFor = contestant === 'ours' ? chain.contract : facilitator
    const bad = []
    for (const payer of [revoker, spender, burner]) {
      await payer.approve()
      bad.push(await signAuthorization(chain.devnet, payer, { gasSponsored: false, facilitator: signedFor }))
    }
    const [, , invalidated] = bad
    if (!invalidated) throw new Error('expected three payments')
    // Spread among the others, so that valid ones come after them.
    const authorizations = [...good]
    for (const [index, authorization] of bad.entries()) authorizations.splice(20 + index * 25, 0, authorization)
    const { settleAll } =
      contestant === 'ours' ? await prepareOurs(ledger, chain, authorizations) : prepareSdk(chain, authorizations)
    await revoker.approve(0n)
    await spender.spend(FUNDS)
    await burner.invalidateNonce(invalidated.nonce)
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
