import { randomUUID } from 'node:crypto'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { catalogOf } from '../../support/payer/paid-call.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(() => sandbox.stop())

async function signTranscription(idempotencyKey = randomUUID()) {
  const challenge = await sandbox.transcribe({ idempotencyKey })
  return { idempotencyKey, challenge, headers: await sandbox.payer.sign(challenge) }
}

test('answers an unpaid request with the specified 402 and calls no vendor [spec S6a, L2, L3b, T1, F2]', async () => {
  const answer = await sandbox.transcribe()
  expect(answer.status).toBe(402)
  const required = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
  expect(required.x402Version).toBe(2)
  expect(required.accepts).toMatchObject([
    {
      scheme: 'upto',
      network: 'eip155:8453',
      amount: '5034',
      asset: sandbox.info.usdc.toLowerCase(),
      payTo: sandbox.info.payTo.toLowerCase(),
    },
  ])
  expect(required.extensions).toHaveProperty('eip2612GasSponsoring')
  expect(await answer.json()).toMatchObject({
    error: 'Payment Required',
    message: expect.stringMatching(/./),
    price: { amount: '0.005034', currency: 'USDC', type: 'maximum' },
    paymentInfo: { x402Version: 2, scheme: 'upto', network: 'eip155:8453', asset: sandbox.info.usdc.toLowerCase() },
  })
  expect(await sandbox.upstreamCalls()).toEqual([])
})

test('a payer without gas and allowance pays exactly the charge and receives the transcript with a receipt [spec L7a, R22, T3, A1b, V3b, O1]', async () => {
  const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
  const { idempotencyKey, headers } = await signTranscription()
  const answer = await sandbox.transcribe({ idempotencyKey, headers })
  expect(answer.status).toBe(200)
  for (const name of ['x-receipt-id', 'x-request-id'])
    expect([name, answer.headers.get(name)]).toEqual([name, expect.stringMatching(UUID)])
  expect(answer.headers.get('x-receipt-token')).toMatch(/^k\d+\.[\w-]{43}$/)
  expect(answer.headers.get('x-catalog-version')).toBe(
    (await catalogOf(sandbox.info.baseUrl, 'pricing')).catalog_version,
  )
  expect(await answer.json()).toMatchObject({
    model: 'speechvendor/scribe-v2',
    text: expect.stringContaining('I am the farebox'),
    usage: { input_audio_ms: expect.any(Number) },
  })
  expect(before - (await sandbox.chain.usdcBalance(sandbox.payer.address))).toBe(5034n)

  const payment = decodePaymentResponseHeader(answer.headers.get('payment-response') ?? '')
  const receipt = await fetch(`${sandbox.info.baseUrl}/v1/receipts/${answer.headers.get('x-receipt-id')}`, {
    headers: { authorization: `Bearer ${answer.headers.get('x-receipt-token')}` },
  })
  expect(await receipt.json()).toMatchObject({
    id: answer.headers.get('x-receipt-id'),
    charge_atomic: '5034',
    authorized_maximum_atomic: '5034',
    transaction: payment.transaction,
    catalog_version: answer.headers.get('x-catalog-version'),
    payer: sandbox.payer.address.toLowerCase(),
  })
})

test('twenty concurrent copies of a signed request make one provider call, one transfer and twenty identical answers', async () => {
  const { idempotencyKey, headers } = await signTranscription()
  const calls = (await sandbox.upstreamCalls()).length
  const transfers = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
  // Three of them are held, the others are asked to come back.
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      until(async () => {
        const answer = await sandbox.transcribe({ idempotencyKey, headers })
        return answer.status === 503 ? null : answer
      }),
    ),
  )
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
  expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1)
  expect(new Set(answers.map((answer) => answer.headers.get('x-receipt-token'))).size).toBe(1)
  expect(await sandbox.upstreamCalls()).toHaveLength(calls + 1)
  expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(transfers + 1)
})
