import { describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import type { ClaimedJob, SealedResult } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import type { Receipt } from '#shared/payment/receipt.ts'
import { checkCharge } from '../../../infra/commands/verify-receipt/check-charge.ts'
import type { GivenReceipt } from '../../../infra/commands/verify-receipt/read-receipt.ts'
import { buildReceipt } from '../../../workers/settlement/build-receipt.ts'

const ADDRESS = `0x${'1'.repeat(40)}`

/** Returns the receipt of a call that used `usage`. */
function receiptOf(operationId: string, body: object, usage: Record<string, number>): Receipt {
  const operation = operationById(operationId)
  const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null, publishedCatalog)
  const { terms, quotedMaximum, catalogVersion } = operation.quote(effective, publishedCatalog)
  const chargeAmount = atomicAmount(operation.charge(usage, terms))
  const job = {
    operation: operationId,
    publicModel: operation.publicModel(effective),
    terms,
    quotedMaximum,
    catalogVersion,
    requestDigest: 'request',
    acceptedAt: new Date(),
    authorization: {
      payer: ADDRESS,
      payTo: ADDRESS,
      network: 'eip155:8453',
      asset: ADDRESS,
      authorizedMaximum: quotedMaximum,
    },
  } as unknown as ClaimedJob
  const sealed = { usage, chargeAmount, resultDigest: 'result' } as unknown as SealedResult
  const settledAt = new Date()
  return buildReceipt(job, sealed, { hash: '0x', blockNumber: 1n, settledAt, issuedAt: settledAt })
}

const chat = (content: string, max_tokens: number, model = 'textmodel-2.5-pro') =>
  receiptOf(
    'createChatCompletion',
    { model, max_tokens, messages: [{ role: 'user', content }] },
    { input_tokens: 20, output_tokens: 5 },
  )
const speech = (input: string) =>
  receiptOf('createSpeech', { model: 'speechvendor/flash-v2.5', input }, { input_characters: input.length })

const outcomes = (receipt: unknown) =>
  Object.fromEntries(checkCharge(receipt as GivenReceipt).map(({ check, outcome }) => [check, outcome]))
const withQuantities = (receipt: Receipt) => ({
  ...receipt,
  unit_prices: { ...receipt.unit_prices, maximum_input_tokens: 293, maximum_output_tokens: 100 },
})

describe('the price version of a receipt', () => {
  it('is the same for all requests under equal prices, and another under other prices [spec O41]', () => {
    expect(chat('Hello', 100).price_version).toBe(chat('Where does the last tram go?', 4000).price_version)
    expect(speech('Mind the gap.').price_version).toBe(speech('Mind the step, please.').price_version)
    expect(chat('Hello', 100, 'textmodel-2.5-flash').price_version).not.toBe(chat('Hello', 100).price_version)
  })

  it('the unit prices of a receipt are prices and bounds only; what a request could use at most is in the calculation', () => {
    const { unit_prices, calculation } = chat('Hello', 100)
    expect(unit_prices).toEqual({
      input_per_million_tokens_usd: '1.25',
      output_per_million_tokens_usd: '10.00',
      minimum_charge_usd: '0.002',
      maximum_charge_usd: '0.766952',
    })
    expect(calculation?.lines.map(({ usage, at_most }) => [usage, at_most])).toEqual([
      ['input_tokens', 293],
      ['output_tokens', 100],
    ])
  })
})

describe('the charge of a receipt, recomputed by the payer', () => {
  const passed = { calculation: 'passed', charge: 'passed', maximum: 'passed' }
  it.each([
    ['text', chat('Hello', 100)],
    ['speech', speech('Mind the gap, and mind the step.')],
  ])('passes for %s', (_, receipt) => {
    expect(outcomes(receipt)).toEqual(passed)
  })

  it('passes for a receipt of an earlier version, whose unit prices also have the quantities of the request', () => {
    expect(outcomes(withQuantities(chat('Hello', 100)))).toEqual(passed)
    const { calculation: _, ...first } = withQuantities(chat('Hello', 100))
    expect(outcomes(first)).toEqual({ ...passed, calculation: 'skipped' })
  })

  it('cannot be recomputed when nothing states the maximum quantity', () => {
    const { calculation: _, ...without } = chat('Hello', 100)
    expect(outcomes(without)).toEqual({ charge: 'failed', maximum: 'passed' })
  })
})
