import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BATCH_CHARGE, type BatchSettler, startBatchSettler } from '../../support/chain/batch-settler.ts'
import { authorizationOf, settle, signPayment } from '../../support/chain/upto-payment.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { WALLET_KINDS, type WalletKind } from '../../support/wallets/wallet-kinds.ts'

/** The gas that a batch gives to each of its entries. */
const GAS_OF_ENTRY = 200_000
const KEY: WalletKind = { name: 'a key', create: createPayer }
const kindOf = (name: string): WalletKind => {
  const found = WALLET_KINDS.find((kind) => kind.name === name)
  if (!found) throw new Error(`no wallet is called ${name}`)
  return found
}

let chain: BatchSettler
const gas: Record<string, number> = {}
beforeAll(async () => {
  chain = await startBatchSettler()
  // The recipient's balance is no longer zero.
  await settle(chain.devnet, authorizationOf(await signPayment(chain.devnet, 9000n, await approvedKey())), 5000n)
})
afterAll(async () => {
  await chain.stop()
  console.table(gas)
})
async function approvedKey() {
  return (await createPayer(chain.devnet.rpcUrl, { approved: true })).account
}

describe('settling the payments of wallets', () => {
  it.each([KEY, ...WALLET_KINDS])(
    'takes less gas than a batch gives to an entry, for $name',
    async ({ name, create }) => {
      const { account } = await create(chain.devnet.rpcUrl, { approved: true })
      const authorization = authorizationOf(await signPayment(chain.devnet, 9000n, account))
      const { status, gasUsed } = await settle(chain.devnet, authorization, 5000n)
      gas[name] = Number(gasUsed)
      expect(status).toBe('success')
      expect(gas[name]).toBeLessThan(GAS_OF_ENTRY)
    },
  )

  it('charges eight payers of different kinds in one transaction, each once', async () => {
    const kinds = [
      KEY,
      kindOf('Safe 1.3.0, 1 of 1'),
      kindOf('MetaMask 1.3.0 by delegation'),
      kindOf('Safe 1.4.1, 2 of 3'),
      kindOf('Safe 1.4.1 of a passkey'),
      kindOf('Simple7702 0.8 by delegation'),
      kindOf('Safe 1.5.0, 5 of 10'),
      kindOf('Safe 1.5.0, 1 of 1'),
    ]
    const wallets = []
    for (const { create } of kinds) wallets.push(await create(chain.devnet.rpcUrl, { approved: true }))
    const charges = []
    for (const wallet of wallets) charges.push(await chain.prepared(await chain.signed(wallet)))
    const hash = await chain.sendBatch(charges)
    const recipient = chain.devnet.accounts.recipient.address
    const transfers = (await chain.devnet.transfersTo(recipient)).filter((each) => each.transactionHash === hash)
    expect(transfers.map(({ from, valueAtomic }) => [from.toLowerCase(), valueAtomic])).toEqual(
      wallets.map(({ address }) => [address, BATCH_CHARGE]),
    )
  })
})
