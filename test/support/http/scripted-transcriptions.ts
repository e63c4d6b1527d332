import { createHash } from 'node:crypto'
import fastify from 'fastify'
import { type Catalog, createCatalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { addPricingRoutes } from '../../../api/routes/pricing.ts'
import type { AllowanceStatus } from '../../../client/wire/schemas.ts'

/** What the service does with a signed request. */
export type PaidFate =
  | 'answered'
  /** At the door: nothing is accepted, and the same signature may be sent again. */
  | 'overloaded'
  /** After the payment was accepted: another signature is needed. */
  | 'failed'
  /** The connection breaks before the service has read the request. */
  | 'lost'
  /** The call is charged, and its answer is lost. */
  | 'answer_lost'

export interface ScriptedTranscriptions {
  readonly fetch: typeof globalThis.fetch
  /** The most that could have been charged at any moment: charges, and signatures that were neither refused nor used. */
  readonly highestExposure: bigint
  readonly charged: bigint
  /** Signed requests by their fate. */
  readonly fates: Readonly<Partial<Record<PaidFate, number>>>
  /** The most signed requests at the same time. */
  readonly mostAtOnce: number
}

export interface ScriptedOptions {
  readonly pricePerAudioHourUsd: string
  readonly minimumChargeUsd: string
  /** The recordings that it knows, by SHA-256. */
  readonly recordings: ReadonlyMap<string, { readonly durationMs: number; readonly bytes: number }>
  /** Decides about each signed request. */
  fateOf(request: number): PaidFate
  /** Waits before each answer. */
  pause(): Promise<unknown>
}

const MODEL = 'speechvendor/scribe-v2'
const NETWORK = 'eip155:8453'
const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
const PERMIT2 = '0x000000000022d473030f116ddee9f6b43ac78ba3'
const [PAY_TO, FACILITATOR] = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`]

/** What can still be, or was, charged under one idempotency key. */
interface KeyState {
  readonly open: Map<string, bigint>
  /** The nonces of signatures that a request without an answer has carried: a refusal of a later one does not end them. */
  readonly unanswered: Set<string>
  charge: bigint | null
}

/**
 * Returns a service of transcriptions in this process, as a `fetch`: prices are computed by the service's own code, and it
 * keeps account of what its signatures would let it charge.
 */
export async function scriptTranscriptions(options: ScriptedOptions): Promise<ScriptedTranscriptions> {
  const catalog = catalogWith(options)
  const pricing = await renderPricing(catalog)
  const keys = new Map<string, KeyState>()
  const fates: Partial<Record<PaidFate, number>> = {}
  const state = { highestExposure: 0n, charged: 0n, requests: 0, atOnce: 0, mostAtOnce: 0 }
  const recordingOf = (sha256: string) => {
    const recording = options.recordings.get(sha256)
    if (recording === undefined) throw new Error(`the service does not know the recording ${sha256}`)
    return { sha256, ...recording }
  }
  const body = transcriptions.bodySchema.parse({ model: MODEL })
  const priceOf = (audio: ReturnType<typeof recordingOf>) =>
    transcriptions.quote(transcriptions.effectiveRequest(body, audio, catalog), catalog).quotedMaximum

  async function answerUpload(request: Request): Promise<Response> {
    const form = await request.formData()
    const file = form.get('file') as File
    const recording = recordingOf(
      createHash('sha256')
        .update(await file.bytes())
        .digest('hex'),
    )
    const price = priceOf(recording)
    const header = request.headers.get('payment-signature')
    if (header === null) return challenge(request.url, price)
    const signed = readPayment(header)
    const fate = options.fateOf(state.requests++)
    fates[fate] = (fates[fate] ?? 0) + 1
    const key = stateOf(request.headers.get('x-idempotency-key') ?? '')
    key.open.set(signed.nonce, signed.maximum)
    note()
    state.atOnce += 1
    state.mostAtOnce = Math.max(state.mostAtOnce, state.atOnce)
    await options.pause()
    state.atOnce -= 1
    if (fate === 'lost') {
      key.unanswered.add(signed.nonce)
      throw new TypeError('fetch failed')
    }
    if (fate === 'overloaded') {
      if (!key.unanswered.has(signed.nonce)) key.open.delete(signed.nonce)
      return refusal(503, 'overloaded', 'same_request')
    }
    if (fate === 'failed' && key.charge === null) {
      key.open.delete(signed.nonce)
      return refusal(503, 'provider_unavailable', 'new_payment')
    }
    if (key.charge === null) {
      if (signed.maximum < price) throw new Error(`${signed.maximum} was signed for ${price}`)
      key.charge = price
      state.charged += price
      key.open.clear()
    }
    if (fate === 'answer_lost') throw new TypeError('fetch failed')
    return transcript(key.charge, recording, String(request.headers.get('x-idempotency-key')))
  }

  function stateOf(name: string): KeyState {
    const state = keys.get(name) ?? { open: new Map(), unanswered: new Set(), charge: null }
    keys.set(name, state)
    return state
  }

  /** Under one key the service charges once, so of several open signatures the highest counts. */
  function note(): void {
    let exposure = 0n
    for (const { open, charge } of keys.values())
      exposure += charge ?? [...open.values()].reduce((most, maximum) => (maximum > most ? maximum : most), 0n)
    if (exposure > state.highestExposure) state.highestExposure = exposure
  }

  return {
    fates,
    get highestExposure() {
      return state.highestExposure
    },
    get charged() {
      return state.charged
    },
    get mostAtOnce() {
      return state.mostAtOnce
    },
    fetch: async (input, init) => {
      const request = new Request(input, init)
      const { pathname, searchParams } = new URL(request.url)
      if (pathname === '/v1/allowances') return Response.json(approvedBy(searchParams.get('owner') ?? ''))
      if (pathname === '/v1/pricing') return new Response(pricing, { headers: { 'content-type': 'application/json' } })
      if (pathname === '/v1/audio/transcriptions') return await answerUpload(request)
      if (pathname !== '/v1/quotes') return refusal(404, 'not_found', 'never')
      const { request: asked } = (await request.json()) as { request: { audio: { sha256: string } } }
      await options.pause()
      return challenge(new URL('/v1/audio/transcriptions', request.url).href, priceOf(recordingOf(asked.audio.sha256)))
    },
  }
}

function catalogWith({ pricePerAudioHourUsd, minimumChargeUsd }: ScriptedOptions): Catalog {
  const { models, voices, common } = publishedCatalog
  const changed = models.map((model) =>
    model.category === 'speech_to_text' ? { ...model, pricePerAudioHourUsd, minimumChargeUsd } : model,
  )
  return createCatalog({ models: changed, voices, common })
}

/** Renders the prices with the service's own route. */
async function renderPricing(catalog: Catalog): Promise<string> {
  const app = fastify()
  addPricingRoutes(app, { readChargeGas: null, catalog: () => catalog })
  const { body } = await app.inject('/v1/pricing')
  await app.close()
  return body
}

/** An approved wallet: calls may run in parallel. */
function approvedBy(owner: string): AllowanceStatus {
  const allowance = (2n ** 256n - 1n).toString()
  return {
    object: 'allowance_status',
    network: NETWORK,
    asset: USDC,
    owner,
    spender: PERMIT2,
    allowance,
    balance_usdc_atomic: '1000000000',
    permit_nonce: '0',
    block: 1,
    pays_without_permit: true,
    maximum_without_permit: '1000000000',
    stored_permit: null,
    storing: {
      available: false,
      reason: 'permits_not_stored',
      message: null,
      minimum_value: '0',
      minimum_deadline_seconds: 60,
    },
    wallet: { has_code: false, may_pay: true, message: null },
    approval: null,
    typed_data: { domain: {}, types: {}, primaryType: 'Permit', message: {} },
  }
}

function challenge(url: string, price: bigint): Response {
  const accepted = {
    scheme: 'upto',
    network: NETWORK,
    amount: price.toString(),
    asset: USDC,
    payTo: PAY_TO,
    maxTimeoutSeconds: 600,
    extra: {
      name: 'USD Coin',
      version: '2',
      assetTransferMethod: 'permit2',
      facilitatorAddress: FACILITATOR,
      expiresAt: new Date(Date.now() + 300_000).toISOString(),
    },
  }
  const resource = { url, description: '', mimeType: 'application/json' }
  const required = { x402Version: 2, resource, accepts: [accepted], extensions: {} }
  return Response.json(
    { error: 'Payment Required', message: 'Pay.' },
    { status: 402, headers: { 'payment-required': encode(required) } },
  )
}

function readPayment(header: string): { readonly nonce: string; readonly maximum: bigint } {
  const { payload } = JSON.parse(Buffer.from(header, 'base64').toString('utf8')) as {
    payload: { permit2Authorization: { nonce: string; permitted: { amount: string } } }
  }
  const { nonce, permitted } = payload.permit2Authorization
  return { nonce, maximum: BigInt(permitted.amount) }
}

function refusal(status: number, code: string, retry: string): Response {
  const error = { type: 'x', message: 'No.', param: null, code, payment: 'none', retry }
  const headers = status === 503 ? { 'retry-after-ms': '0' } : {}
  return Response.json({ type: 'error', error, request_id: 'r' }, { status, headers })
}

function transcript(charge: bigint, recording: { readonly durationMs: number }, key: string): Response {
  const settlement = { success: true, transaction: `0x${'a'.repeat(64)}`, network: NETWORK, amount: charge.toString() }
  const text = 'Words.'
  return Response.json(
    {
      id: 'transcription_1',
      created: 1,
      model: MODEL,
      text,
      language: 'eng',
      usage: { input_audio_ms: recording.durationMs },
      words: [{ word: text, start: 0, end: recording.durationMs / 1000, type: 'word' }],
    },
    {
      headers: {
        'payment-response': encode(settlement),
        'x-receipt-id': `receipt-of-${key}`,
        'x-receipt-token': 'token',
      },
    },
  )
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64')
}
