import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import { exitCodeOf } from '../../../client/command/exit-codes.ts'
import { FareboxError } from '../../../client/farebox.ts'
import { CHAT, countingAccount, openClient } from '../../support/client/open-client.ts'
import {
  challenge,
  charged,
  json,
  MAXIMUM,
  type ScriptedServer,
  serviceError,
  startScriptedServer,
} from '../../support/client/scripted-server.ts'

/** What the client does after an answer to a signed request. */
type NextStep =
  /** Reports the error. */
  | 'gives up'
  /** Sends the same payment again after a wait. */
  | 'waits'
  /** Signs another payment under the same key. */
  | 'signs again'
/** For each code: the next step, the exit code of a command that ends with it, and what its advice says. */
const EXPECTED: Readonly<Record<ErrorCode, readonly [NextStep, exitCode: number, advice: RegExp]>> = {
  missing_idempotency_key: ['gives up', 1, /^Change the request/],
  invalid_idempotency_key: ['gives up', 1, /^Change the request/],
  idempotency_key_conflict: ['gives up', 1, /^Change the request/],
  malformed_http: ['gives up', 1, /^Change the request/],
  headers_too_large: ['gives up', 1, /^Change the request/],
  duplicate_header: ['gives up', 1, /^Change the request/],
  invalid_json: ['gives up', 1, /^Change the request/],
  invalid_multipart: ['gives up', 1, /^Change the request/],
  missing_field: ['gives up', 1, /^Change the request/],
  unknown_field: ['gives up', 1, /^Change the request/],
  duplicate_field: ['gives up', 1, /^Change the request/],
  invalid_field: ['gives up', 1, /^Change the request/],
  invalid_base64: ['gives up', 1, /^Change the request/],
  unsupported_audio: ['gives up', 1, /MP3.*farebox transcribe/],
  audio_too_short: ['gives up', 1, /^Leave the recording out/],
  audio_too_long: ['gives up', 1, /farebox transcribe/],
  audio_too_large: ['gives up', 1, /farebox transcribe/],
  invalid_payment_header: ['gives up', 1, /^Change the request/],
  permit_invalid: ['gives up', 1, /^Change the request/],
  permit_expired: ['gives up', 1, /clock/],
  owner_has_code: ['gives up', 4, /account without code/],
  owner_balance_too_low: ['gives up', 4, /^Add USDC/],
  content_rejected: ['gives up', 1, /^Change the request/],
  image_unavailable: ['gives up', 1, /^Change the request/],
  context_length_exceeded: ['gives up', 1, /^Change the request/],
  maximum_price_exceeded: ['gives up', 1, /^Change the request/],
  receipt_token_required: ['gives up', 1, /receipt token/],
  payment_required: ['signs again', 1, /same key.*signs a new payment/],
  payment_signature_invalid: ['gives up', 1, /wallet/],
  payment_amount_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_asset_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_recipient_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_network_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_scheme_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_spender_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_facilitator_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_terms_mismatch: ['gives up', 1, /same key.*signs a new payment/],
  payment_expired: ['gives up', 1, /clock/],
  payment_not_yet_valid: ['gives up', 1, /clock/],
  payment_nonce_used: ['signs again', 1, /same key.*signs a new payment/],
  insufficient_funds: ['gives up', 4, /^Add USDC/],
  payer_blocked: ['gives up', 4, /another wallet/],
  payer_has_code: ['gives up', 4, /account without code/],
  payer_not_deployed: ['gives up', 4, /first transaction/],
  payment_rejected: ['gives up', 1, /same key.*signs a new payment/],
  fresh_signature_required: ['signs again', 1, /same key.*signs a new payment/],
  audio_claim_mismatch: ['signs again', 1, /same key.*signs a new payment/],
  challenge_expired: ['signs again', 1, /same key.*signs a new payment/],
  settlement_failed: ['signs again', 1, /same key.*signs a new payment/],
  not_found: ['gives up', 1, /URL of the service/],
  method_not_allowed: ['gives up', 1, /URL of the service/],
  idempotency_key_reused: ['gives up', 1, /another key/],
  challenge_mismatch: ['gives up', 1, /another key/],
  authorization_already_used: ['gives up', 1, /another key/],
  payment_already_settled: ['gives up', 1, /^Do not pay again.*operator/],
  payment_refunded: ['gives up', 1, /^Nothing is left to pay/],
  payment_resolved_outside: ['gives up', 1, /^Do not pay again/],
  payment_written_off: ['gives up', 1, /^Do not pay again/],
  unpaid_debt: ['gives up', 4, /earlier call/],
  permit_already_used: ['signs again', 1, /approve/],
  permit2_allowance_required: ['gives up', 4, /^Approve Permit2/],
  body_too_large: ['gives up', 1, /^Change the request/],
  request_timeout: ['waits', 1, /faster connection/],
  unsupported_content_type: ['gives up', 1, /^Change the request/],
  unsupported_content_encoding: ['gives up', 1, /^Change the request/],
  expectation_failed: ['gives up', 1, /^Change the request/],
  result_expired: ['gives up', 1, /^The result is gone.*charged again/],
  rate_limited: ['waits', 1, /same key/],
  open_exposure_limit: ['waits', 1, /same key/],
  funds_reserved: ['waits', 4, /add USDC/],
  uncharged_work_limit: ['signs again', 1, /same key.*signs a new payment/],
  settlement_retry_limit: ['waits', 1, /funds/],
  new_payer_limit: ['waits', 1, /same key/],
  permits_not_stored: ['gives up', 4, /^Approve Permit2 in a transaction of your own/],
  model_unavailable: ['waits', 1, /same key/],
  screening_unavailable: ['signs again', 1, /same key.*signs a new payment/],
  capacity_exceeded: ['waits', 1, /same key/],
  overloaded: ['waits', 1, /same key/],
  database_unavailable: ['waits', 1, /same key.*at most once/],
  receipt_unavailable: ['waits', 1, /same key/],
  media_unavailable: ['waits', 1, /same key/],
  storage_unavailable: ['waits', 1, /same key/],
  payment_network_unavailable: ['waits', 1, /same key/],
  payment_network_fees_high: ['waits', 1, /same key/],
  payment_state_unknown: ['waits', 1, /same key.*at most once/],
  audio_inspection_unavailable: ['waits', 1, /same key/],
  request_in_progress: ['waits', 1, /same key.*at most once/],
  settlement_pending: ['waits', 1, /same key.*at most once/],
  settlement_under_review: ['gives up', 1, /operator/],
  provider_unavailable: ['signs again', 1, /same key.*signs a new payment/],
  provider_rejected: ['gives up', 1, /^Change the request/],
  request_unsupported: ['gives up', 1, /^Change the request/],
  provider_outcome_unknown: ['signs again', 1, /same key.*signs a new payment/],
  provider_empty_output: ['gives up', 1, /^Change the request/],
  authorization_too_short: ['signs again', 1, /same key.*signs a new payment/],
  work_not_started: ['signs again', 1, /same key.*signs a new payment/],
  upload_expired: ['signs again', 1, /same key.*signs a new payment/],
  internal_error: ['waits', 1, /same key.*at most once/],
}
const CODES = Object.entries(EXPECTED) as [ErrorCode, (typeof EXPECTED)[ErrorCode]][]
const MONEY_SENTENCE = {
  none: /Nothing was charged\./,
  authorized: /may still be charged, once/,
  settled: /is paid for/,
  unknown: /not known yet/,
}
const START = 1_000_000n
const PERMIT2 = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
const USDC = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const OTHER = '0x9999999999999999999999999999999999999999'
const statusOf = (owner: string, changes: Record<string, unknown>, message = {}, domain = {}) => ({
  object: 'allowance_status',
  network: 'eip155:8453',
  asset: USDC,
  owner,
  spender: PERMIT2,
  allowance: '0',
  balance_usdc_atomic: '5000000',
  permit_nonce: '0',
  block: 1,
  stored_permit: null,
  storing: {
    available: true,
    reason: null,
    message: null,
    minimum_value: '1',
    minimum_deadline_seconds: 60,
  },
  typed_data: {
    domain: { name: 'USD Coin', version: '2', chainId: 8453, verifyingContract: USDC, ...domain },
    types: {},
    primaryType: 'Permit',
    message: { deadline: String(Math.floor(Date.now() / 1000) + 3600), ...message },
  },
  ...changes,
})
describe('every error code of the service', () => {
  let server: ScriptedServer
  beforeAll(async () => {
    server = await startScriptedServer()
  })

  afterAll(() => server.stop())

  async function refusedWith(code: ErrorCode, patienceMs: number) {
    const client = await openClient(server, { budget: { session: '1' } })
    const from = server.received.length
    const waits: string[] = []
    server.script(challenge(), serviceError(code))
    const outcome = await client.chat
      .create(CHAT, { requestId: `key-${code}`, patienceMs, onWait: (error) => waits.push(error.code) })
      .catch((error: unknown) => error)
    return { client, outcome, waits, requests: server.received.slice(from) }
  }
  describe('every error of the service after a signed request', () => {
    beforeEach(() => server.always(charged()))

    it('the table has every code of the service', () => {
      expect(Object.keys(EXPECTED).sort()).toEqual(Object.keys(ERROR_CODES).sort())
    })

    it.each(CODES)('%s: the next step is right, and at most one payment is charged', async (code, [nextStep]) => {
      if (nextStep === 'signs again')
        server.always((received, reply) => (received.payment ? charged() : challenge())(received, reply))
      const { outcome, requests, waits } = await refusedWith(code, 10_000)
      const signed = requests.flatMap(({ payment }) => payment ?? [])
      const keys = new Set(requests.map(({ key }) => key))
      expect(keys.size).toBe(1)
      const sent = { 'gives up': [1, 1], waits: [2, 1], 'signs again': [2, 2] }[nextStep]
      expect([signed.length, new Set(signed).size]).toEqual(sent)
      const isPaid = nextStep !== 'gives up'
      expect(waits.length).toBeLessThanOrEqual(isPaid ? 1 : 0)
      expect(outcome).toMatchObject(isPaid ? { payment: { charged: '0.005034' } } : { code })
    })

    it.each(CODES)(
      '%s: the error says what happened to the money, which the budget agrees with, and what to do',
      async (code, [, exitCode, advice]) => {
        if (ERROR_CODES[code].retry !== 'never' && ERROR_CODES[code].status === 402) server.always(serviceError(code))
        const { client, outcome } = await refusedWith(code, 0)
        expect(outcome).toBeInstanceOf(FareboxError)
        const error = outcome as FareboxError
        expect(error).toMatchObject({ code, money: ERROR_CODES[code].payment })
        expect(error.advice).toMatch(advice)
        expect(error.message).toMatch(MONEY_SENTENCE[error.money])
        expect(error.message.match(/Nothing was charged/g)?.length ?? 0).toBe(error.money === 'none' ? 1 : 0)
        expect(error.message.endsWith(error.advice)).toBe(true)
        expect(exitCodeOf(error)).toBe(exitCode)
        // The budget keeps exactly what may still be charged.
        expect(client.budgetLeft().session).toBe(error.money === 'none' ? START : START - MAXIMUM)
      },
    )
  })

  describe('every error of the service before anything is signed', () => {
    it.each(CODES.filter(([code]) => ERROR_CODES[code].status !== 402))('%s: nothing was paid', async (code) => {
      const client = await openClient(server, { budget: { session: '1' } })
      const from = server.received.length
      server.script(serviceError(code))
      server.always(serviceError(code))
      await expect(client.chat.create(CHAT, { patienceMs: 0 })).rejects.toMatchObject({ code })
      expect(server.received.slice(from).filter(({ payment }) => payment !== undefined)).toEqual([])
      expect(client.budgetLeft().session).toBe(START)
    })
  })
})

describe('a service that states an allowance', () => {
  let server: ScriptedServer
  afterEach(() => server.stop())

  async function approveWith(changes: Record<string, unknown>, message = {}, domain = {}) {
    const { counting, signed } = countingAccount()
    const status = statusOf(counting.address.toLowerCase(), changes, message, domain)
    server = await startScriptedServer({ free: { '/v1/allowances': json(status) } })
    const client = await openClient(server, { wallet: counting })
    const error = await client.approve({ patienceMs: 0 }).catch((thrown: unknown) => thrown)
    return { error, signed }
  }
  describe('a server that asks for a permit', () => {
    it('on the expected terms it is signed', async () => {
      expect((await approveWith({})).signed.map(({ primaryType }) => primaryType)).toEqual(['Permit'])
    })

    const inAYear = String(Math.floor(Date.now() / 1000) + 365 * 86_400)
    it.each([
      ['another spender', { spender: OTHER }, {}, {}, /spender is 0x9999/],
      ['another asset', { asset: OTHER }, {}, { verifyingContract: OTHER }, /asset is 0x9999/],
      ['another contract', {}, {}, { verifyingContract: OTHER }, /contract is 0x9999/],
      ['another network', { network: 'eip155:1' }, {}, { chainId: 1 }, /network is eip155:1/],
      ['another chain', {}, {}, { chainId: 1 }, /chain id is 1/],
      ['another owner', { owner: OTHER }, {}, {}, /owner is 0x9999/],
      ['a deadline in a year', {}, { deadline: inAYear }, {}, new RegExp(`deadline is ${inAYear}`)],
      ['a deadline that is no number', {}, { deadline: '-1' }, {}, /deadline is -1/],
      ['a nonce that is no number', { permit_nonce: 'x' }, {}, {}, /nonce is x/],
    ])('for %s it is refused, with what differed', async (_, changes, message, domain, difference) => {
      const { error, signed } = await approveWith(changes, message, domain)
      expect(error).toMatchObject({ code: 'challenge_refused', message: expect.stringMatching(difference) })
      expect(signed).toEqual([])
    })

    it.each([
      ['an allowance that is no number', { allowance: 'x' }],
      ['nothing about storing', { storing: null }],
      ['a stored permit without a value', { stored_permit: {} }],
      ['no message to sign', { typed_data: null }],
      ['a nonce of another type', { permit_nonce: {} }],
      ['a network of another type', { network: null }],
    ])('with %s it is an error with a message, and nothing is signed', async (_, changes) => {
      const { error, signed } = await approveWith(changes)
      expect(error).toBeInstanceOf(FareboxError)
      expect(error).toMatchObject({ money: 'none' })
      expect(signed).toEqual([])
    })
  })
})
