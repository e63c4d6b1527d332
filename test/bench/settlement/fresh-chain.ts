import { toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type ChainPayer, createChainPayer } from '../../support/payer/chain-payer.ts'
import { inParallel } from '../measuring/in-parallel.ts'

/** Many, since a real load comes from many; each has approved Permit2 and holds plenty. */
const PAYERS = 8
const LIFETIME_SECONDS = 3600

/** A chain of its own with funded settlement keys and payers. */
export interface FreshChain {
  readonly devnet: TestDevnet
  readonly keys: readonly `0x${string}`[]
  readonly payers: readonly ChainPayer[]
  /** So many authorizations, dealt out over payers and keys in turn. */
  sign(count: number): Promise<readonly Authorization[]>
  /** From now on blocks come at this interval instead of with each transaction. */
  mineEvery(seconds: number): Promise<void>
  /** Transactions of the settlement keys that wait in the node's pool. */
  readPool(): Promise<number>
}

/** Preparations are mined at once; only then blocks come at their interval. */
export async function startFreshChain(keyCount: number, blockTimeSeconds: number | null): Promise<FreshChain> {
  const devnet = await startTestDevnet()
  const { rpcUrl } = devnet
  const keys = Array.from({ length: keyCount }, generatePrivateKey)
  const addresses = keys.map((key) => privateKeyToAccount(key).address)
  for (const address of addresses) await callRpc(rpcUrl, 'anvil_setBalance', [address, toHex(10n ** 20n)])
  const payers: ChainPayer[] = []
  for (let index = 0; index < PAYERS; index++) {
    const payer = await createChainPayer(devnet, 1_000_000_000n)
    await payer.approve()
    payers.push(payer)
  }
  const mineEvery = async (seconds: number) => {
    await callRpc(rpcUrl, 'evm_setIntervalMining', [seconds])
  }
  if (blockTimeSeconds !== null) await mineEvery(blockTimeSeconds)
  return {
    devnet,
    keys,
    payers,
    mineEvery,
    sign: async (count) => {
      const signed: Authorization[] = []
      const deadline = BigInt(Math.floor(Date.now() / 1000) + LIFETIME_SECONDS)
      await inParallel(Array.from({ length: count }), 8, async (_, index) => {
        const payer = payers[index % payers.length]
        const facilitator = addresses[index % addresses.length]
        if (!payer || !facilitator) throw new Error('there are no payers or keys')
        signed[index] = await payer.sign({ gasSponsored: false, deadline, facilitator })
      })
      return signed
    },
    readPool: async () => {
      const { pending, queued } = await callRpc<{ pending: string; queued: string }>(rpcUrl, 'txpool_status', [])
      return Number(pending) + Number(queued)
    },
  }
}
