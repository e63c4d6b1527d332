import { encodePaymentResponseHeader } from '@x402/core/http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { AppError, type AppErrorDetails } from '#shared/errors/app-error.ts'
import { ERROR_CODES, type ErrorCode } from '#shared/errors/error-codes.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { createOfferWriter } from '#shared/payment/offer-receipt.ts'
import { renderPaymentRequired } from '../../../api/paid-request/quote/challenge.ts'
import { newRequestId } from '../../../api/plugins/request-context.ts'
import { addPricingRoutes } from '../../../api/routes/pricing.ts'
import { composeApp, listings, signer, terms } from '../../integration/routes/compose-app.ts'

/** One request that the server received. */
export interface Received {
  readonly path: string
  readonly key: string | undefined
  readonly payment: string | undefined
  readonly headers: FastifyRequest['headers']
  readonly body: string
  readonly raw: Buffer
}

/** How the server answers one request. */
export type Step = (received: Received, reply: FastifyReply) => unknown

export interface ScriptedServer {
  readonly baseUrl: string
  readonly received: readonly Received[]
  /** Answers the next requests. */
  script(...steps: readonly Step[]): void
  /** Answers requests after the script; without it they are refused as `internal_error`. */
  always(step: Step): void
  stop(): Promise<void>
}

interface ServerOptions {
  /** A port that was free before. */
  readonly at?: number
  /** Answers of free routes; `/v1/pricing` has the published prices otherwise. */
  readonly free?: Readonly<Record<string, Step>>
}

const PATHS = [
  '/v1/chat/completions',
  '/v1/audio/transcriptions',
  '/v1/quotes',
  '/v1/images/generations',
  '/v1/allowances',
]

/**
 * Starts an HTTP server that answers as a script says. Errors and challenges are rendered by the service's own code; what
 * an honest service never sends is written by the test.
 */
export async function startScriptedServer({ at = 0, free = {} }: ServerOptions = {}): Promise<ScriptedServer> {
  const steps: Step[] = []
  const received: Received[] = []
  let otherwise: Step = serviceError('internal_error')
  const answer = (request: FastifyRequest, reply: FastifyReply) => {
    const one = asReceived(request)
    received.push(one)
    return (steps.shift() ?? otherwise)(one, reply)
  }
  const app = await composeApp((server) => {
    server.removeAllContentTypeParsers()
    server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    for (const path of PATHS) server.post(path, answer)
    for (const [path, step] of Object.entries(free))
      server.get(path, (request, reply) => step(asReceived(request), reply))
    if (free['/v1/pricing'] === undefined)
      addPricingRoutes(server, { readChargeGas: null, catalog: () => publishedCatalog })
  })
  await app.listen({ host: '127.0.0.1', port: at })
  const { port } = app.server.address() as { readonly port: number }
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    received,
    script: (...more) => void steps.push(...more),
    always: (step) => {
      otherwise = step
    },
    stop: async () => {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}

function asReceived({ url: path, headers, body }: FastifyRequest): Received {
  const raw = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
  const { 'x-idempotency-key': key, 'payment-signature': payment } = headers
  return { path, headers, raw, body: raw.toString('utf8'), key: text(key), payment: text(payment) }
}

function text(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join() : value
}

/** Members of a challenge that a server may change. */
export interface ChallengeChanges {
  readonly amount?: bigint
  readonly terms?: Partial<typeof terms>
  readonly extra?: Record<string, unknown>
  readonly validUntil?: Date
  readonly refusal?: ErrorCode
  readonly retryAfterSeconds?: number
}

export const MAXIMUM = 5034n
const CHALLENGE_MS = 600_000
const writeOffer = createOfferWriter(signer)

/** Answers with the challenge of a priced request, as the service renders it, but for `changes`. */
export function challenge(changes: ChallengeChanges = {}): Step {
  return ({ path }, reply) => {
    const validUntil = changes.validUntil ?? new Date(Date.now() + CHALLENGE_MS)
    const { refusal, retryAfterSeconds } = changes
    const isTranscription = path !== '/v1/chat/completions' && path !== '/v1/images/generations'
    const listing = listings[isTranscription ? 'createTranscription' : 'createChatCompletion']
    const rendered = renderPaymentRequired({
      terms: { ...terms, ...changes.terms },
      listing,
      extensions: listing.pricedExtensions,
      offer: { writeOffer, validUntil },
      maximum: atomicAmount(changes.amount ?? MAXIMUM),
      message: 'This request has a price.',
      extra: {
        facilitatorAddress: (changes.terms?.facilitators ?? terms.facilitators)[0],
        expiresAt: validUntil.toISOString(),
        ...changes.extra,
      },
      refusal:
        refusal === undefined
          ? undefined
          : new AppError(refusal, retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
      requestId: newRequestId(),
    })
    return reply.status(rendered.status).headers(rendered.headers).send(rendered.body)
  }
}

/** Answers with an error of the service: a refused payment with a challenge, anything else with the common body. */
export function serviceError(code: ErrorCode, details: AppErrorDetails = { retryAfterSeconds: 0.001 }): Step {
  const { kind, status } = ERROR_CODES[code]
  if (kind === 'payment' && (status === 402 || status === 412)) return challenge({ refusal: code })
  return () => {
    throw new AppError(code, details)
  }
}

export const CHAT_RESULT = { id: 'x', object: 'chat.completion', choices: [] }

export interface Settled {
  readonly amount?: bigint | string
  readonly receiptId?: string
  readonly transaction?: string
  readonly result?: unknown
}

/** Answers with a result that is paid for. */
export function charged({ amount = MAXIMUM, receiptId, transaction, result = CHAT_RESULT }: Settled = {}): Step {
  return (_received, reply) => {
    const paymentResponse = encodePaymentResponseHeader({
      success: true,
      transaction: transaction ?? `0x${'ab'.repeat(32)}`,
      network: 'eip155:8453',
      amount: String(amount),
    })
    const receipt = receiptId ?? '00000000-0000-4000-8000-000000000001'
    return reply
      .headers({ 'payment-response': paymentResponse, 'x-receipt-id': receipt, 'x-receipt-token': 'token' })
      .header('content-type', 'application/json; charset=utf-8')
      .send(typeof result === 'string' ? result : JSON.stringify(result))
  }
}

/** Answers with any status, type and text, as something between client and service does. */
export function foreign(status: number, body: string | Buffer, headers: Record<string, string> = {}): Step {
  return (_received, reply) =>
    reply
      .status(status)
      .headers({ 'content-type': 'text/html', ...headers })
      .send(body)
}

/** Answers with JSON as it is. */
export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Step {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return foreign(status, text, { 'content-type': 'application/json', ...headers })
}

/** Closes the connection without an answer. */
export const cut: Step = (_received, reply) => {
  reply.hijack()
  reply.raw.socket?.destroy()
}
