import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { expect } from 'vitest'
import { atomicOf } from '../http/json-endpoint.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'

/** A call that was challenged, paid and answered, with its transfer on chain. */
export interface PaidCall {
  readonly answer: Response
  readonly bytes: Buffer
  readonly authorizedAtomic: bigint
  readonly chargedAtomic: bigint
  /** Sends the signed request again. */
  repeat(headers?: Readonly<Record<string, string>>): Promise<Response>
}

/** Pays for one call and asserts what every paid success has: its headers, its receipt and a transfer of the charge. */
export async function payForCall(
  sandbox: SharedSandbox,
  path: string,
  body: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<PaidCall> {
  const { baseUrl, payTo } = sandbox.info
  const idempotencyKey = randomUUID()
  const send = (more: Readonly<Record<string, string>>) =>
    fetch(`${baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers, ...more },
      body: JSON.stringify(body),
    })
  const challenge = await send({})
  expect(challenge.status).toBe(402)
  const [accepted] = decodePaymentRequiredHeader(challenge.headers.get('payment-required') ?? '').accepts
  const payment = await sandbox.payer.sign(challenge)
  const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
  const answer = await send(payment)
  const bytes = Buffer.from(await answer.arrayBuffer())
  expect({ status: answer.status, body: answer.status === 200 ? '' : bytes.toString() }).toEqual({
    status: 200,
    body: '',
  })
  const call = {
    answer,
    bytes,
    authorizedAtomic: BigInt(accepted?.amount ?? 0),
    chargedAtomic: before - (await sandbox.chain.usdcBalance(sandbox.payer.address)),
    repeat: (more: Readonly<Record<string, string>> = {}) => send({ ...payment, ...more }),
  }
  const [transfer] = (await sandbox.chain.transfersTo(payTo)).slice(-1)
  expect(transfer?.valueAtomic).toBe(call.chargedAtomic)
  expect(call.chargedAtomic).toBeGreaterThan(0n)
  expect(call.chargedAtomic).toBeLessThanOrEqual(call.authorizedAtomic)
  await expectSuccessHeaders(sandbox, call, transfer?.transactionHash ?? '')
  return call
}

async function expectSuccessHeaders(
  { info, payer }: SharedSandbox,
  { answer, chargedAtomic, authorizedAtomic }: PaidCall,
  transaction: string,
): Promise<void> {
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
  const header = (name: string) => answer.headers.get(name) ?? ''
  expect(header('x-receipt-id')).toMatch(uuid)
  expect(header('x-receipt-token').length).toBeGreaterThan(20)
  expect(header('x-request-id')).toMatch(uuid)
  expect(header('request-id')).toBe(header('x-request-id'))
  expect(header('x-catalog-version')).toBe((await catalogOf(info.baseUrl, 'models')).catalog_version)
  expect(header('payment-required')).toBe('')
  expect(decodePaymentResponseHeader(header('payment-response'))).toMatchObject({
    success: true,
    transaction,
    network: 'eip155:8453',
    payer: payer.address.toLowerCase(),
    amount: chargedAtomic.toString(),
  })
  const receiptUrl = `${info.baseUrl}/v1/receipts/${header('x-receipt-id')}`
  const receipt = await fetch(receiptUrl, { headers: { authorization: `Bearer ${header('x-receipt-token')}` } })
  expect({ status: receipt.status, body: await receipt.json() }).toMatchObject({
    status: 200,
    body: {
      id: header('x-receipt-id'),
      charge_atomic: chargedAtomic.toString(),
      authorized_maximum_atomic: authorizedAtomic.toString(),
      transaction,
    },
  })
}

export interface Catalog {
  readonly catalog_version: string
  readonly data: readonly (Readonly<Record<string, unknown>> & { readonly model?: string })[]
}

export async function catalogOf(baseUrl: string, list: 'models' | 'pricing'): Promise<Catalog> {
  return (await (await fetch(`${baseUrl}/v1/${list}`)).json()) as Catalog
}

/** Returns a published price of a model. */
export async function priceField(baseUrl: string, model: string, field: string): Promise<bigint> {
  const { data } = await catalogOf(baseUrl, 'pricing')
  return atomicOf(String(data.find((entry) => entry.model === model)?.[field]))
}

/** Returns `units × price / per`, rounded up to an atomic unit and never below the minimum. */
export function chargeOf(parts: readonly (readonly [units: number, price: bigint])[], per: bigint, minimum: bigint) {
  const exact = parts.reduce((sum, [units, price]) => sum + BigInt(units) * price, 0n)
  const rounded = (exact + per - 1n) / per
  return rounded < minimum ? minimum : rounded
}
