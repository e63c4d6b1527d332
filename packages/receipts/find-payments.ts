/** `Transfer(address,address,uint256)` (EIP-20). */
const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/**
 * What the service's settlement contract reports after each payment of a batch:
 * `PaymentSettled(address,uint256,uint256)` and `PaymentFailed(address,uint256,uint256,bytes4)`, by payer.
 */
const SETTLED_TOPIC = '0x66ecffa4c81e8d596bf508a63d76e692c1eea327ffbfe9bb17e6236c9e01ace0'
const FAILED_TOPIC = '0xeb353ab03324c7ab5e62764a67945cff40f6d2351eb730953fc5f01fd1115851'

interface Log {
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
  readonly logIndex: number
}

/** What a transaction moved from the payer of a receipt to its recipient, in atomic USDC. */
export interface Payments {
  /** The amounts of each of the payer's payments. */
  readonly payments: readonly (readonly bigint[])[]
  /** How many payments the transaction settles together; `null` when it settles one by itself. */
  readonly batchSize: number | null
}

/**
 * Finds the transfers of each of the payer's payments: those between two reports of the settlement contract `to` belong to
 * the later one, so that two payments of one payer and one amount are told apart.
 */
export function findPayments(
  { asset, payer, pay_to }: { readonly asset: string; readonly payer: string; readonly pay_to: string },
  to: string | null,
  logs: readonly Log[],
): Payments {
  const [payerTopic, payToTopic] = [topicOf(payer), topicOf(pay_to)]
  const payments: bigint[][] = []
  let [batchSize, amounts]: [number, bigint[]] = [0, []]
  for (const { address, topics, data } of logs.toSorted((a, b) => a.logIndex - b.logIndex)) {
    const [event, first, second] = topics
    if (isSame(address, asset) && event === TRANSFER_TOPIC && first === payerTopic && second === payToTopic)
      amounts.push(BigInt(data))
    if (to === null || !isSame(address, to) || (event !== SETTLED_TOPIC && event !== FAILED_TOPIC)) continue
    if (event === SETTLED_TOPIC && first === payerTopic && amounts.length > 0) payments.push(amounts)
    batchSize += 1
    amounts = []
  }
  return batchSize === 0 ? { payments: [amounts], batchSize: null } : { payments, batchSize }
}

/** Pads an address to 32 bytes, as in an event's topics. */
function topicOf(address: string): string {
  return `0x${address.slice(2).toLowerCase().padStart(64, '0')}`
}

function isSame(address: string, other: string): boolean {
  return address.toLowerCase() === other.toLowerCase()
}
