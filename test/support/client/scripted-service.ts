import { generatePrivateKey } from 'viem/accounts'
import { createCover } from '../../../client/allowance/cover.ts'
import { Budget } from '../../../client/budget/budget.ts'
import type { BudgetLimits } from '../../../client/budget/limits.ts'
import { createMemoryJournal } from '../../../client/journal/journal.ts'
import type { PaidCall, PaymentContext } from '../../../client/payment/paid-call.ts'
import { openPins } from '../../../client/payment/pins.ts'
import { createPaymentSigner } from '../../../client/payment/sign-payment.ts'
import { walletFromPrivateKey } from '../../../client/wallet/wallet-from-private-key.ts'

export const ORIGIN = 'http://localhost:4020'
export const URL_OF_CALL = `${ORIGIN}/v1/chat/completions`

/** A request that reached the scripted service. */
export interface SeenRequest {
  readonly url: string
  readonly key: string | null
  readonly payment: string | null
  readonly body: string
}

/** One step: an answer, a connection that breaks, or one on which nothing arrives. */
export type Step = (request: SeenRequest) => Response | Error

export interface OfferedTerms {
  readonly amount?: string
  readonly payTo?: string
  readonly asset?: string
  readonly network?: string
  readonly scheme?: string
  readonly resource?: string
  readonly facilitator?: string
  readonly expiresAt?: string
  readonly maxTimeoutSeconds?: number
  readonly extensions?: object
}

export function challengeHeader(terms: OfferedTerms = {}): string {
  const accepted = {
    scheme: terms.scheme ?? 'upto',
    network: terms.network ?? 'eip155:8453',
    amount: terms.amount ?? '5034',
    asset: terms.asset ?? '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
    payTo: terms.payTo ?? `0x${'1'.repeat(40)}`,
    maxTimeoutSeconds: terms.maxTimeoutSeconds ?? 600,
    extra: {
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: terms.facilitator ?? `0x${'2'.repeat(40)}`,
      expiresAt: terms.expiresAt ?? new Date(Date.now() + 300_000).toISOString(),
    },
  }
  const resource = { url: terms.resource ?? URL_OF_CALL, description: '', mimeType: 'application/json' }
  return Buffer.from(
    JSON.stringify({ x402Version: 2, resource, accepts: [accepted], extensions: terms.extensions ?? {} }),
  ).toString('base64')
}

export const challenged =
  (terms: OfferedTerms = {}, refusal: Record<string, string> = {}): Step =>
  () =>
    Response.json(
      { error: 'Payment Required', message: 'Pay.', ...refusal },
      { status: 402, headers: { 'payment-required': challengeHeader(terms) } },
    )

/** What GET /v1/allowances answers: Permit2 may take 1 of 20 USDC, and the service stores no permit of the wallet. */
export const allowance =
  (changes: { readonly allowance?: string; readonly nonce?: string; readonly stored?: object } = {}): Step =>
  ({ url }) => {
    const asset = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
    return Response.json({
      network: 'eip155:8453',
      asset,
      owner: new URL(url).searchParams.get('owner'),
      spender: '0x000000000022d473030f116ddee9f6b43ac78ba3',
      allowance: changes.allowance ?? '1',
      balance_usdc_atomic: '20000000',
      permit_nonce: changes.nonce ?? '0',
      stored_permit: changes.stored ?? null,
      storing: { available: false, reason: 'permits_not_stored', message: 'No.', minimum_value: '100000' },
      typed_data: {
        domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: asset },
        message: { deadline: String(Math.floor(Date.now() / 1000) + 3600) },
      },
    })
  }

export const failed =
  (status: number, code: string, payment: string, retry: string, headers: Record<string, string> = {}): Step =>
  () =>
    Response.json(
      { type: 'error', error: { type: 'x', message: 'No.', param: null, code, payment, retry }, request_id: 'r' },
      { status, headers: { 'retry-after-ms': '0', ...headers } },
    )

export const charged =
  (amount: string, receiptId = 'receipt-1'): Step =>
  () => {
    const settlement = { success: true, transaction: '0xaa', network: 'eip155:8453', amount }
    const paymentResponse = Buffer.from(JSON.stringify(settlement)).toString('base64')
    return Response.json(
      { ok: true },
      { headers: { 'payment-response': paymentResponse, 'x-receipt-id': receiptId, 'x-receipt-token': 'token' } },
    )
  }

const NOTHING = new Error('nothing arrives')
export const silent: Step = () => NOTHING

export const broken: Step = () => new TypeError('fetch failed')

/** Composes the payment path over a service that follows a script and refuses everything after it. */
export function composePayments(
  script: readonly Step[],
  limits: BudgetLimits | (() => BudgetLimits) = {},
  approves = true,
) {
  const steps = [...script]
  const seen: SeenRequest[] = []
  const clock = { skew: 0 }
  const now = () => Date.now() + clock.skew
  const journal = createMemoryJournal(now)
  const wallet = walletFromPrivateKey(generatePrivateKey())
  const parts = {
    payer: wallet.address.toLowerCase(),
    journal,
    budget: new Budget(limits, journal, now),
    pins: openPins(journal, {}),
    sign: createPaymentSigner(wallet),
    wallet,
    baseUrl: ORIGIN,
    rpcUrl: undefined,
    now,
    fetch: async (input: string | URL | Request, init?: RequestInit) => {
      const request = new Request(input, init)
      const seenRequest = {
        url: request.url,
        key: request.headers.get('x-idempotency-key'),
        payment: request.headers.get('payment-signature'),
        body: await request.text(),
      }
      seen.push(seenRequest)
      const answer = steps.shift()?.(seenRequest) ?? new Error('the script is over')
      if (answer === NOTHING)
        return await new Promise<Response>((_, reject) =>
          request.signal.addEventListener('abort', () => reject(new Error('aborted'))),
        )
      if (answer instanceof Error) throw answer
      return answer
    },
  }
  const context: PaymentContext = { ...parts, cover: createCover(parts, { approves }) }
  return { context, seen, clock, journal, extend: (...more: readonly Step[]) => steps.push(...more) }
}

export const callOf = (changes: Partial<PaidCall> = {}): PaidCall => ({
  key: 'key-1',
  url: URL_OF_CALL,
  identity: 'identity',
  purpose: 'test',
  headers: { 'content-type': 'application/json' },
  body: () => '{"a":1}',
  patienceMs: 10_000,
  ...changes,
})
