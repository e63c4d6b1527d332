import { encodeFunctionData, type Hex, parseAbi } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createDelegatingPayer, type DelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import { createPayer, type Payer, unlockPayer } from '../../support/payer/payer.ts'
import { HOSTILE_WALLETS, type HostileWallet } from '../../support/wallets/hostile-wallets.ts'
import { createSafe, freshKeyOwners, type SafeWallet } from '../../support/wallets/safe-wallet.ts'
import { createResources } from '../nemesis/resources.ts'

const ABI = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])

/** The attacker's money, which wanders between many wallets so that each of them can show it. */
export interface Wallets {
  readonly all: readonly Payer[]
  /** Wallets whose accounts can delegate to code; like the next two, each has 1 USDC of the budget. */
  readonly delegating: readonly DelegatingPayer[]
  /** Genuine wallets that ask contracts of the attacker. */
  readonly hostile: readonly HostileWallet[]
  /** Genuine wallets of the attacker, of which one attack uses one. */
  readonly genuine: readonly SafeWallet[]
  /** Moves `atomic` USDC to the next free wallet, runs `use` and collects what is left. */
  lend<T>(atomic: bigint, use: (wallet: Payer) => Promise<T>): Promise<T>
  /** Returns what the attacker has now, in all wallets together. */
  total(): Promise<bigint>
}

const DELEGATING = 4
const GENUINE = 2
const HOSTILE = ['the fallback handler of a Safe', 'the only owner of a Safe', 'one of two owners of a Safe'] as const
const ATOMIC_OF_CODE = 1_000_000n

/** Creates wallets that share `budgetAtomic` USDC; each lets Permit2 spend all that it gets. */
export async function createWallets(rpcUrl: string, count: number, budgetAtomic: bigint): Promise<Wallets> {
  const chain = createChainReader(rpcUrl)
  const delegating: DelegatingPayer[] = []
  const funded = { usdcAtomic: ATOMIC_OF_CODE, approved: true }
  while (delegating.length < DELEGATING) delegating.push(await createDelegatingPayer(rpcUrl, funded))
  const hostile: HostileWallet[] = []
  for (const place of HOSTILE) hostile.push(await HOSTILE_WALLETS[place](rpcUrl, funded))
  const genuine: SafeWallet[] = []
  while (genuine.length < GENUINE) genuine.push(await createSafe(rpcUrl, { ...funded, owners: freshKeyOwners(2) }))
  const withCode = [...delegating, ...hostile, ...genuine]
  const usdcAtomic = budgetAtomic - BigInt(withCode.length) * ATOMIC_OF_CODE
  const treasury = await createPayer(rpcUrl, { usdcAtomic })
  await unlockPayer(treasury)
  const all: Payer[] = []
  while (all.length < count) all.push(await createPayer(rpcUrl, { usdcAtomic: 0n, approved: true }))
  const free = [...all]
  const resources = createResources()

  /** One transfer at a time: anvil mixes up nonces of concurrent transactions from one account. */
  const transfer = (from: Payer, to: Payer, atomic: bigint): Promise<void> =>
    resources.hold('transfers', async () => {
      const data = encodeFunctionData({ abi: ABI, functionName: 'transfer', args: [to.address, atomic] })
      const call = { from: from.address, to: DEVNET_ADDRESSES.usdc, data }
      const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [call])
      const { status } = await chain.client.waitForTransactionReceipt({ hash })
      if (status !== 'success') throw new Error(`the wallet’s transfer ${hash} was reverted`)
    })

  return {
    all,
    delegating,
    hostile,
    genuine,
    lend: async (atomic, use) => {
      const wallet = free.shift()
      if (!wallet) throw new Error('every wallet is in use')
      try {
        await transfer(treasury, wallet, atomic)
        return await use(wallet)
      } finally {
        const left = await chain.usdcBalance(wallet.address)
        // A settlement may be mined in between; what it leaves is collected the next time.
        if (left > 0n) await transfer(wallet, treasury, left).catch(() => undefined)
        free.push(wallet)
      }
    },
    total: async () => {
      const balances = await Promise.all(
        [treasury, ...all, ...withCode].map(({ address }) => chain.usdcBalance(address)),
      )
      return balances.reduce((sum, balance) => sum + balance, 0n)
    },
  }
}
