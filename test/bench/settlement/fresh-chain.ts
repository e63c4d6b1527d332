import { toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { inParallel } from '../measuring/in-parallel.ts'

/** Several payers, as in a real load; each has approved Permit2 and has enough USDC. */
const PAYERS = 8
const LIFETIME_SECONDS = 3600

/** A fresh chain with funded settlement keys and payers. */
export interface FreshChain {
  readonly devnet: TestDevnet
  readonly keys: readonly `0x${string}`[]
  /** The settlement contract, which lists the keys. */
  readonly contract: `0x${string}`
  readonly payers: readonly Payer[]
  /** Signs `count` authorizations, distributed evenly over payers, for the contract or evenly for the keys. */
  sign(count: number, settledBy: 'contract' | 'keys'): Promise<readonly Authorization[]>
  /** Mines blocks at this interval from now on, instead of with each transaction. */
  mineEvery(seconds: number): Promise<void>
  /** Returns how many transactions of the settlement keys were mined. */
  countTransactions(): Promise<number>
  /** Returns the number of transactions in the node's pool. */
  readPool(): Promise<number>
}

/** Starts a chain and prepares its payers, with a block for each transaction; the block interval applies afterwards. */
export async function startFreshChain(keyCount: number, blockTimeSeconds: number | null): Promise<FreshChain> {
  const devnet = await startTestDevnet()
  const { rpcUrl } = devnet
  const keys = Array.from({ length: keyCount }, generatePrivateKey)
  const addresses = keys.map((key) => privateKeyToAccount(key).address)
  for (const address of addresses) await callRpc(rpcUrl, 'anvil_setBalance', [address, toHex(10n ** 20n)])
  const roles = { owner: devnet.accounts.recipient.address, keys: addresses }
  const contract = (await deploySettlementContract(rpcUrl, roles)).toLowerCase() as `0x${string}`
  const payers: Payer[] = []
  for (let index = 0; index < PAYERS; index++) {
    payers.push(await createPayer(rpcUrl, { usdcAtomic: 1_000_000_000n, approved: true }))
  }
  const mineEvery = async (seconds: number) => {
    await callRpc(rpcUrl, 'evm_setIntervalMining', [seconds])
  }
  if (blockTimeSeconds !== null) await mineEvery(blockTimeSeconds)
  return {
    devnet,
    keys,
    contract,
    payers,
    mineEvery,
    sign: async (count, settledBy) => {
      const signed: Authorization[] = []
      const deadline = BigInt(Math.floor(Date.now() / 1000) + LIFETIME_SECONDS)
      await inParallel(Array.from({ length: count }), 8, async (_, index) => {
        const payer = payers[index % payers.length]
        const facilitator = settledBy === 'contract' ? contract : addresses[index % addresses.length]
        if (!payer || !facilitator) throw new Error('there are no payers or keys')
        signed[index] = await signAuthorization(devnet, payer, { gasSponsored: false, deadline, facilitator })
      })
      return signed
    },
    countTransactions: async () => {
      const counts = await Promise.all(addresses.map((address) => devnet.client.getTransactionCount({ address })))
      return counts.reduce((sum, count) => sum + count, 0)
    },
    readPool: async () => {
      const { pending, queued } = await callRpc<{ pending: string; queued: string }>(rpcUrl, 'txpool_status', [])
      return Number(pending) + Number(queued)
    },
  }
}
