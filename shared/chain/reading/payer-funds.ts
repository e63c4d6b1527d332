import type { ContractFunctionParameters, PublicClient } from 'viem'
import { z } from 'zod'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { PayerFunds } from '#shared/payment/exposure.ts'
import {
  MULTICALL3_ADDRESS,
  multicall3Abi,
  PERMIT2_ADDRESS,
  permit2Abi,
  USDC_ADDRESS,
  usdcAbi,
} from '../network/contracts.ts'
import { hasNonce, wordOfNonce } from '../network/permit2-nonce.ts'
import { shareCalls } from '../network/share-calls.ts'

type FundsReading =
  | { readonly outcome: 'read'; readonly funds: PayerFunds }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads the funds of payers. */
export interface PayerFundsReader {
  /**
   * Returns a reading of the last second, which the ledger's settlements since then correct. Reads again for a payer whose
   * funds were needed not long ago, and returns `null` for others, or when the chain does not answer.
   */
  recent(payer: `0x${string}`): Promise<PayerFunds | null>
  /** Reads the funds with one RPC call for any number of nonces. */
  read(payer: `0x${string}`, nonces: readonly bigint[]): Promise<FundsReading>
}

/** How long a reading is reused for further payments of the same payer. */
const RECENT_MS = 1000
/**
 * How long a payer whose funds were needed is expected to have several payments open: without a reading the ledger would
 * refuse the next one first, and with it roll back those of others. After that one of them shows it again.
 */
const EXPECTED_MS = 10_000
/** Upper bound of the cache. */
const MAXIMUM_PAYERS = 10_000

/** Payers with jobs in progress are read together: a call costs more than what it reads. */
const SHARING = { maximum: () => 16, longestWaitMs: 20, callsAtOnce: 4 }
/** A payer with more settling payments is read alone: what they have open must not make a call of others too large. */
const MOST_SHARED_NONCES = 16

interface Reading {
  readonly funds: PayerFunds
  readonly readAt: number
  /** When the funds were last read because a payment needed them. */
  readonly neededAt: number
}

interface Asked {
  readonly payer: `0x${string}`
  readonly nonces: readonly bigint[]
}

/**
 * Reads balance, allowance, nonces and block number in one `eth_call`, so all are of the same block. Payers that are
 * read at the same time share it.
 */
export function createPayerFundsReader(client: PublicClient, now: () => number): PayerFundsReader {
  const readShared = shareCalls<Asked, PayerFunds>((asked) => readFunds(client, asked), SHARING)
  const readAlone = async (asked: Asked): Promise<PayerFunds> => {
    const [funds] = await readFunds(client, [asked])
    if (!funds) throw new Error('no funds were read')
    return funds
  }
  const read = (asked: Asked) => (asked.nonces.length > MOST_SHARED_NONCES ? readAlone(asked) : readShared(asked))
  const readings = new Map<string, Reading>()
  const repeated = new Map<string, Promise<PayerFunds | null>>()
  const remember = (payer: string, reading: Reading) => {
    readings.delete(payer)
    readings.set(payer, reading)
    const [oldest] = readings.keys()
    if (readings.size > MAXIMUM_PAYERS && oldest !== undefined) readings.delete(oldest)
  }
  const readAndRemember = async (asked: Asked, readAt: number, neededAt: number): Promise<FundsReading> => {
    try {
      const funds = await read(asked)
      remember(asked.payer, { funds, readAt, neededAt })
      return { outcome: 'read', funds }
    } catch (cause) {
      return { outcome: 'unreachable', cause }
    }
  }
  const readAgain = async (payer: `0x${string}`, neededAt: number): Promise<PayerFunds | null> => {
    const reading = await readAndRemember({ payer, nonces: [] }, now(), neededAt)
    repeated.delete(payer)
    return reading.outcome === 'read' ? reading.funds : null
  }
  return {
    recent: async (payer) => {
      const reading = readings.get(payer)
      if (!reading) return null
      if (now() - reading.readAt < RECENT_MS) return reading.funds
      if (now() - reading.neededAt >= EXPECTED_MS) return null
      const again = repeated.get(payer) ?? readAgain(payer, reading.neededAt)
      repeated.set(payer, again)
      return await again
    },
    read: (payer, nonces) => readAndRemember({ payer, nonces }, now(), now()),
  }
}

async function readFunds(client: PublicClient, asked: readonly Asked[]): Promise<readonly PayerFunds[]> {
  const results = await client.multicall({
    allowFailure: false,
    // Never split: two calls could read two blocks.
    batchSize: 0,
    multicallAddress: MULTICALL3_ADDRESS,
    contracts: [
      { address: MULTICALL3_ADDRESS, abi: multicall3Abi, functionName: 'getBlockNumber' },
      ...asked.flatMap(callsFor),
    ],
  })
  const [blockNumber, ...values] = z.tuple([z.bigint()], z.bigint()).parse(results)
  let position = 0
  return asked.map((one) => {
    const count = callsFor(one).length
    const [balance, allowance, permitNonce, ...bitmaps] = fundsSchema.parse(values.slice(position, position + count))
    position += count
    const bitmapOf = new Map(wordsOf(one).map((word, index) => [word, bitmaps[index] ?? 0n]))
    const isUsed = (nonce: bigint) => hasNonce(bitmapOf.get(wordOfNonce(nonce)) ?? 0n, nonce)
    return {
      balance: atomicAmount(balance),
      allowance: atomicAmount(allowance),
      permitNonce,
      blockNumber,
      usedNonces: new Set(one.nonces.filter(isUsed)),
    }
  })
}

const fundsSchema = z.tuple([z.bigint(), z.bigint(), z.bigint()], z.bigint())

function callsFor(asked: Asked): readonly ContractFunctionParameters[] {
  const { payer } = asked
  return [
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'balanceOf', args: [payer] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'allowance', args: [payer, PERMIT2_ADDRESS] },
    { address: USDC_ADDRESS, abi: usdcAbi, functionName: 'nonces', args: [payer] },
    ...wordsOf(asked).map((word): ContractFunctionParameters => ({
      address: PERMIT2_ADDRESS,
      abi: permit2Abi,
      functionName: 'nonceBitmap',
      args: [payer, word],
    })),
  ]
}

function wordsOf({ nonces }: Asked): readonly bigint[] {
  return [...new Set(nonces.map(wordOfNonce))]
}
