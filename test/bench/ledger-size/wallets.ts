import { type Hex, sha256, toHex } from 'viem'
import { privateKeyToAddress } from 'viem/accounts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { type Payer, payerWithKey } from '../../support/payer/payer.ts'

/** More than any run spends. */
const FUNDS_ATOMIC = 1_000_000_000n
const WALLETS = 16

/** The same keys in each run: a history that is kept names their addresses. The first made a tenth of its calls. */
const KEYS: readonly Hex[] = Array.from({ length: WALLETS }, (_, index) => sha256(toHex(`ledger-size payer ${index}`)))

/** Addresses of the payers with most calls, in lower case. */
export const WALLET_ADDRESSES = KEYS.map((key) => privateKeyToAddress(key).toLowerCase())

/** Gives each wallet USDC that Permit2 may spend. */
export async function fundWallets(rpcUrl: string): Promise<readonly Payer[]> {
  const payers = KEYS.map((key) => payerWithKey(rpcUrl, key))
  // One after the other, because all are funded from one account.
  for (const payer of payers) {
    await mintUsdc(rpcUrl, payer.address, FUNDS_ATOMIC)
    await payer.approve()
  }
  return payers
}
