import { z } from 'zod'
import { findPayments } from '#receipts/find-payments.ts'
import { type Check, failed, judged, passed, skipped } from '../check.ts'
import { fetchJson, messageOf } from './fetch-json.ts'
import type { GivenReceipt } from './read-receipt.ts'

/** The issuer's USDC contract on each network: a transfer of another token with that name does not count. */
const USDC: Readonly<Record<string, string>> = {
  'eip155:8453': '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
}

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/)
  .transform(BigInt)
const logSchema = z.looseObject({
  address: z.string(),
  topics: z.array(z.string()),
  data: z.string(),
  logIndex: quantity.transform(Number),
})
const transactionReceiptSchema = z
  .looseObject({ status: quantity, blockNumber: quantity, to: z.string().nullish(), logs: z.array(logSchema) })
  .nullable()
const answerSchema = z.looseObject({
  result: z.unknown().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
})

type TransactionReceipt = NonNullable<z.infer<typeof transactionReceiptSchema>>

/** Checks the payment on chain, using the payer's own node. */
export async function checkChain(receipt: GivenReceipt, rpcUrl: string): Promise<readonly Check[]> {
  if (BigInt(receipt.charge_atomic) === 0n) return [passed('transfer', 'nothing was charged, so there is no transfer')]
  // A reorganization may have moved the transfer after the receipt was issued.
  const { state, transaction, block_number } = receipt.settlement ?? { ...receipt, state: 'confirmed' }
  if (state === 'lost')
    return [failed('transaction', `a reorganization removed ${transaction} from the chain: nothing was paid`)]
  if (!/^0x[0-9a-f]{64}$/.test(transaction))
    return [failed('transaction', `"${transaction}" is not a transaction hash`)]
  const replacing =
    transaction === receipt.transaction ? '' : `, in place of ${receipt.transaction}, which a reorganization removed`
  try {
    const network = `eip155:${await callNode(rpcUrl, 'eth_chainId', [], quantity)}`
    if (network !== receipt.network)
      return [
        failed(
          'network',
          `${hostOf(rpcUrl)} serves ${network}, but the payment is on ${receipt.network}. Pass a node of that network as --rpc.`,
        ),
      ]
    const found = await callNode(rpcUrl, 'eth_getTransactionReceipt', [transaction], transactionReceiptSchema)
    if (!found) return [failed('transaction', `${transaction} is not on ${network}, or the node has pruned it`)]
    return [
      judged('transaction', found.status === 1n ? [] : ['reverted'], `${transaction} succeeded${replacing}`),
      checkTransfer(receipt, found),
      checkBlock(block_number, found),
    ]
  } catch (error) {
    return [failed('network', `${messageOf(error)}. Check --rpc.`)]
  }
}

/**
 * Checks that a payment of the transaction is exactly one transfer from payer to recipient, of exactly the charge. A batch
 * may hold other payments of the same payer.
 */
function checkTransfer(receipt: GivenReceipt, { to, logs }: TransactionReceipt): Check {
  const usdc = USDC[receipt.network]
  if (usdc !== undefined && receipt.asset !== usdc)
    return failed('transfer', `the asset ${receipt.asset} is not USDC on ${receipt.network}`)
  const { payments, batchSize } = findPayments(receipt, to ?? null, logs)
  const parties = `${receipt.payer} to ${receipt.pay_to}`
  const single = payments.flatMap((amounts) => (amounts.length === 1 ? amounts : []))
  if (single.includes(BigInt(receipt.charge_atomic))) {
    const batch = batchSize === null ? '' : `, in a batch of ${batchSize}`
    return passed('transfer', `${receipt.charge_atomic} from ${parties}${batch}`)
  }
  const amounts = payments.flat()
  if (amounts.length !== 1)
    return failed('transfer', `found ${amounts.length} USDC transfers from ${parties}, none of them for this receipt`)
  return failed('transfer', `${amounts[0]} was sent from ${parties}, but the charge is ${receipt.charge_atomic}`)
}

function checkBlock(stated: string, { blockNumber }: TransactionReceipt): Check {
  const isEqual = BigInt(stated) === blockNumber
  return judged('block', isEqual ? [] : [`is ${blockNumber}, not ${stated}`], stated)
}

async function callNode<Result extends z.ZodType>(
  rpcUrl: string,
  method: string,
  parameters: readonly string[],
  schema: Result,
): Promise<z.output<Result>> {
  const node = hostOf(rpcUrl)
  const request = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: parameters }),
  }
  const { body } = await fetchJson(rpcUrl, request, node)
  const answer = answerSchema.parse(body)
  if (answer.error) throw new Error(`${node} rejects ${method}: ${answer.error.message}`)
  const result = schema.safeParse(answer.result)
  if (!result.success) throw new Error(`${node} does not answer ${method} like an Ethereum node`)
  return result.data
}

/** The rest of a node's URL often contains a key. */
function hostOf(rpcUrl: string): string {
  return new URL(rpcUrl).host
}

/** Reported when no `--rpc` was given. */
export const CHAIN_NOT_CHECKED = skipped('transfer', 'not checked; pass a node of your choice with --rpc')
