import { expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import type { KnownRequest } from '#shared/ledger/acceptance/find-known-request.ts'
import { openPaymentHeader } from '#shared/payment/x402-wire.ts'
import { handlePaidRequest } from '../../../api/paid-request/handle-paid-request.ts'
import { createPayerMemory } from '../../../api/paid-request/pay/payer-memory.ts'
import { createPayments } from '../../../api/paid-request/payments.ts'

const address = (digit: string) => `0x${digit.repeat(40)}`
const HEADER = Buffer.from(
  JSON.stringify({
    x402Version: 2,
    accepted: {
      scheme: 'upto',
      network: 'eip155:8453',
      amount: '5034',
      asset: address('a'),
      payTo: address('b'),
      maxTimeoutSeconds: 600,
      extra: { challenge: 'token' },
    },
    payload: {
      signature: `0x${'ab'.repeat(64)}1b`,
      permit2Authorization: {
        from: address('c'),
        permitted: { token: address('a'), amount: '5034' },
        spender: address('d'),
        nonce: '7',
        deadline: '1900000000',
        witness: { to: address('b'), facilitator: address('e'), validAfter: '0' },
      },
    },
  }),
).toString('base64')
const TERMS = {
  network: 'eip155:8453',
  asset: address('a'),
  acceptedRecipients: [address('b')],
  spender: address('d'),
  acceptedFacilitators: [address('e')],
}
const UNKNOWN: KnownRequest = { binding: null, holder: null, claim: null, storedPermit: null }

/** Presents a payment that this API has refused for lack of funds; returns the refusal that is repeated. */
async function present(known: KnownRequest): Promise<string | undefined> {
  const { decoded } = openPaymentHeader(HEADER)
  if (decoded.outcome !== 'decoded') throw new Error('the payment cannot be read')
  const payers = createPayerMemory(() => 1000)
  const challenge = {
    idempotencyKey: 'key',
    requestDigest: 'digest',
    expiresAt: new Date(Date.now() + 60_000),
    quote: {},
  }
  payers.rememberRefusal(decoded.payment.authorization, new AppError('insufficient_funds'), challenge as never)
  let repeated: string | undefined
  const parts = {
    payments: createPayments({
      terms: TERMS,
      payers,
      now: () => new Date(),
      store: { findKnownRequest: async () => known },
    } as never),
    requests: { readEffectiveRequest: async () => ({ requestDigest: 'digest' }) },
    quotes: {
      findQuotedCatalog: async () => null,
      renderChallenge: (_challenge: unknown, _id: string, error: AppError) => (repeated = error.code),
    },
    tracer: { stage: (_name: string, run: () => unknown) => run() },
  }
  const headers = { 'x-idempotency-key': 'key', 'payment-signature': HEADER }
  const handled = handlePaidRequest(parts as never, {} as never, { id: 'r', headers } as never, {} as never)
  // What follows a payment that is not refused again needs the rest of the service.
  await handled.catch(() => undefined)
  return repeated
}

it('a refusal is repeated without the chain, while no other API has accepted the payment', async () => {
  expect(await present(UNKNOWN)).toBe('insufficient_funds')
})

it('a payment that another API has accepted since is not said to be refused', async () => {
  expect(await present({ ...UNKNOWN, claim: { jobId: 'job', challengeTokenSha256: 'x' } })).toBeUndefined()
})
