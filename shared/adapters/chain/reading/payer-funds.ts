import type { ContractFunctionParameters, PublicClient } from 'viem'
import { z } from 'zod'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerFunds, PayerFundsReader } from '#shared/payment/payer-funds.ts'
import {
  MULTICALL3_ADDRESS,
  multicall3Abi,
  PERMIT2_ADDRESS,
  permit2Abi,
  USDC_ADDRESS,
  usdcAbi,
} from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'

/** How long a reading is reused for further payments of the same payer. */
const RECENT_MS = 1000
/** Upper bound of the cache. */
const MAXIMUM_PAYERS = 10_000

/** Reads balance, allowance, used nonces and block number in one `eth_call`, so all are of the same block. */
export function createPayerFundsReader(client: PublicClient, now: () => number): PayerFundsReader {
  const readings = new Map<string, { funds: PayerFunds; readAt: number }>()
  const remember = (payer: string, funds: PayerFunds, readAt: number) => {
    readings.delete(payer)
    readings.set(payer, { funds, readAt })
    const [oldest] = readings.keys()
    if (readings.size > MAXIMUM_PAYERS && oldest !== undefined) readings.delete(oldest)
  }
  return {
    recent: (payer) => {
      const reading = readings.get(payer)
      return reading && now() - reading.readAt < RECENT_MS ? reading.funds : null
    },
    read: async (payer, nonces) => {
      const readAt = now()
      try {
        const funds = await readFunds(client, payer, nonces)
        remember(payer, funds, readAt)
        return { outcome: 'read', funds }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
  }
}

async function readFunds(client: PublicClient, payer: `0x${string}`, nonces: readonly bigint[]): Promise<PayerFunds> {
  const words = [...new Set(nonces.map(wordOfNonce))]
  const calls: ContractFunctionParameters[] = [
    { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getBlockNumber' },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [payer] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'allowance', args: [payer, PERMIT2_ADDRESS] },
    ...words.map(
      (word): ContractFunctionParameters => ({
        address: PERMIT2_ADDRESS,
        abi: permit2Abi,
        functionName: 'nonceBitmap',
        args: [payer, word],
      }),
    ),
  ]
  const results = await client.multicall({
    allowFailure: false,
    // Never split: two calls could read two blocks.
    batchSize: 0,
    multicallAddress: MULTICALL3_ADDRESS,
    contracts: calls,
  })
  const [blockNumber, balance, allowance, ...bitmaps] = z
    .tuple([z.bigint(), z.bigint(), z.bigint()], z.bigint())
    .parse(results)
  const bitmapOf = new Map(words.map((word, index) => [word, bitmaps[index] ?? 0n]))
  const isUsed = (nonce: bigint) => hasNonce(bitmapOf.get(wordOfNonce(nonce)) ?? 0n, nonce)
  return {
    balance: atomicAmount(balance),
    allowance: atomicAmount(allowance),
    blockNumber,
    usedNonces: new Set(nonces.filter(isUsed)),
  }
}
