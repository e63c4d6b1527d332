import { z } from 'zod'
import { type Check, failed, judged, passed, skipped } from './check.ts'
import { fetchJson, messageOf } from './fetch-json.ts'
import type { GivenReceipt } from './read-receipt.ts'

/** `Transfer(address,address,uint256)` (EIP-20). */
const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** The issuer's USDC, so that a transfer of a coin that merely bears the name does not count. */
const USDC: Readonly<Record<string, string>> = {
  'eip155:8453': '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
}

const quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/)
  .transform(BigInt)
const logSchema = z.looseObject({ address: z.string(), topics: z.array(z.string()), data: z.string() })
const transactionReceiptSchema = z
  .looseObject({ status: quantity, blockNumber: quantity, logs: z.array(logSchema) })
  .nullable()
const answerSchema = z.looseObject({
  result: z.unknown().optional(),
  error: z.looseObject({ message: z.string() }).optional(),
})

type TransactionReceipt = NonNullable<z.infer<typeof transactionReceiptSchema>>

/** Finds the payment on chain, by a node of the payer's choice. */
export async function checkChain(receipt: GivenReceipt, rpcUrl: string): Promise<readonly Check[]> {
  if (BigInt(receipt.charge_atomic) === 0n) return [passed('transfer', 'nothing was charged, so nothing was sent')]
  // A reorganisation may have moved it since the receipt was issued.
  const { state, transaction, block_number } = receipt.settlement ?? { ...receipt, state: 'confirmed' }
  if (state === 'lost')
    return [
      failed('transaction', `${transaction} was taken out of the chain, and the charge with it: nothing was paid`),
    ]
  if (!/^0x[0-9a-f]{64}$/.test(transaction)) return [failed('transaction', `"${transaction}" is no transaction hash`)]
  const replacing =
    transaction === receipt.transaction ? '' : `, in place of ${receipt.transaction}, which a reorganisation took out`
  try {
    const network = `eip155:${await callNode(rpcUrl, 'eth_chainId', [], quantity)}`
    if (network !== receipt.network)
      return [
        failed('network', `${rpcUrl} serves ${network}, the payment is on ${receipt.network}. Give an RPC of it.`),
      ]
    const found = await callNode(rpcUrl, 'eth_getTransactionReceipt', [transaction], transactionReceiptSchema)
    if (!found) return [failed('transaction', `${transaction} is not on ${network}, or the node has pruned it`)]
    return [
      judged('transaction', found.status === 1n ? [] : ['was reverted'], `${transaction} succeeded${replacing}`),
      checkTransfer(receipt, found),
      checkBlock(block_number, found),
    ]
  } catch (error) {
    return [failed('network', `${messageOf(error)}. Check --rpc.`)]
  }
}

/** Exactly one transfer from payer to recipient, of exactly the charge. */
function checkTransfer(receipt: GivenReceipt, { logs }: TransactionReceipt): Check {
  const usdc = USDC[receipt.network]
  if (usdc !== undefined && receipt.asset !== usdc)
    return failed('transfer', `the asset ${receipt.asset} is not USDC on ${receipt.network}`)
  const [payer, payTo] = [topicOf(receipt.payer), topicOf(receipt.pay_to)]
  const amounts = logs
    .filter(
      ({ address, topics: [event, from, to] }) =>
        address.toLowerCase() === receipt.asset && event === TRANSFER_TOPIC && from === payer && to === payTo,
    )
    .map(({ data }) => BigInt(data))
  const parties = `${receipt.payer} to ${receipt.pay_to}`
  if (amounts.length !== 1) return failed('transfer', `${amounts.length} transfers of USDC from ${parties}, not one`)
  const isCharge = amounts[0] === BigInt(receipt.charge_atomic)
  return isCharge
    ? passed('transfer', `${receipt.charge_atomic} from ${parties}`)
    : failed('transfer', `${amounts[0]} was sent from ${parties}, but ${receipt.charge_atomic} is charged`)
}

function checkBlock(stated: string, { blockNumber }: TransactionReceipt): Check {
  const isEqual = BigInt(stated) === blockNumber
  return judged('block', isEqual ? [] : [`is ${blockNumber}, not ${stated}`], stated)
}

/** An address as an event's topic: 32 bytes. */
function topicOf(address: string): string {
  return `0x${address.slice(2).padStart(64, '0')}`
}

async function callNode<Result extends z.ZodType>(
  rpcUrl: string,
  method: string,
  parameters: readonly string[],
  schema: Result,
): Promise<z.output<Result>> {
  const { body } = await fetchJson(rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: parameters }),
  })
  const answer = answerSchema.parse(body)
  if (answer.error) throw new Error(`${rpcUrl} refuses ${method}: ${answer.error.message}`)
  const result = schema.safeParse(answer.result)
  if (!result.success) throw new Error(`${rpcUrl} does not answer ${method} as a node of Ethereum's kind does`)
  return result.data
}

/** What is said without a node to ask. */
export const chainNotAsked = skipped('transfer', 'not looked up; give --rpc with a node of your choice')
