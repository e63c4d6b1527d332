import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'

/** A request without its payment. */
export interface Call {
  readonly path: string
  readonly body: Record<string, unknown> | FormData
}

export interface PaidCall {
  /** Atomic USDC that the payer authorized. */
  readonly maximum: bigint
  /** Atomic USDC that the settlement moved. */
  readonly charge: bigint
  readonly transaction: string
  readonly receiptId: string
  readonly receiptToken: string
  readonly answer: unknown
}

export interface PayingOptions {
  readonly baseUrl: string
  /** Signs a challenge and returns the headers of the paid request. */
  readonly sign: (challenge: Response) => Promise<Record<string, string>>
  /** Throws to refuse a price, in atomic USDC, before anything is signed. */
  readonly approve?: (maximum: bigint) => void
}

/** Asks for the price, signs it and sends the same request with the payment. Throws for any other outcome. */
export async function makePaidCall({ baseUrl, sign, approve }: PayingOptions, { path, body }: Call): Promise<PaidCall> {
  const idempotencyKey = randomUUID()
  const isForm = body instanceof FormData
  const send = (payment: Record<string, string>) =>
    fetch(`${baseUrl}${path}`, {
      method: 'POST',
      headers: {
        ...(isForm ? {} : { 'content-type': 'application/json' }),
        'x-idempotency-key': idempotencyKey,
        ...payment,
      },
      body: isForm ? body : JSON.stringify(body),
    })
  const challenge = await send({})
  const header = challenge.headers.get('payment-required')
  if (challenge.status !== 402 || header === null) throw await unexpected(path, challenge)
  // Of all offers, since `sign` chooses one of them.
  const maximum = decodePaymentRequiredHeader(header)
    .accepts.map(({ amount }) => BigInt(amount))
    .reduce((most, amount) => (amount > most ? amount : most), 0n)
  approve?.(maximum)
  const paid = await send(await sign(challenge))
  if (paid.status !== 200) throw await unexpected(path, paid)
  const { amount = '0', transaction } = decodePaymentResponseHeader(paid.headers.get('payment-response') ?? '')
  return {
    maximum,
    charge: BigInt(amount),
    transaction,
    receiptId: paid.headers.get('x-receipt-id') ?? '',
    receiptToken: paid.headers.get('x-receipt-token') ?? '',
    answer: await paid.json(),
  }
}

async function unexpected(path: string, response: Response): Promise<Error> {
  return new Error(`${path}: ${response.status} ${await response.text()}`)
}
