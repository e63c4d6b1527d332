import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentResponseHeader } from '@x402/core/http'
import type { SandboxInfo } from '../../../infra/sandbox/sandbox.ts'
import { PATIENCE_MS } from '../patience.ts'
import { challengeOf, paymentHeader, signCustomPayment } from './custom-payment.ts'
import type { PayerOfAnyKind } from './payer.ts'
import { randomNonce } from './sign-authorization.ts'
import { type PermitTerms } from './sign-permit.ts'

const PATH = '/v1/chat/completions'
/** Pause between two attempts of a caller whose answer asked for the same request again. */
const RETRY_MS = 200
/** A caller may have to wait for the work for many others. */
const CALLER_PATIENCE_MS = 5 * PATIENCE_MS

/**
 * A chat whose prompt contains its key, by which the upstream's log identifies its calls. A long chat is charged nearly
 * its maximum, about half a cent; any other a small part of it.
 */
export interface SignedChat {
  readonly idempotencyKey: string
  readonly payer: PayerOfAnyKind
  readonly nonce: bigint
  readonly maximum: bigint
  readonly headers: Readonly<Record<string, string>>
  readonly isLong: boolean
}

/**
 * An answer as its caller reads it. `code`, `retry` and `payment` are those of a failure, in either of its two forms.
 */
export interface ChatAnswer {
  readonly status: number
  readonly code: string
  readonly retry: string
  readonly payment: string
  readonly receiptId: string
  /** The charge in PAYMENT-RESPONSE, in atomic USDC. */
  readonly charged: bigint
  readonly transaction: string
  readonly body: string
}

/** Sends the chat with this key, paid or unpaid. A broken connection is an answer with status 0. */
export async function sendChat(
  baseUrl: string,
  idempotencyKey: string,
  headers: Readonly<Record<string, string>> = {},
  isLong = false,
): Promise<ChatAnswer & { readonly response: Response | null }> {
  try {
    const response = await fetch(`${baseUrl}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
      body: JSON.stringify(chatBody(idempotencyKey, isLong)),
    })
    return { ...(await readAnswer(response)), response }
  } catch (error) {
    const unanswered = { status: 0, code: 'no_answer', retry: 'same_request', payment: 'unknown', receiptId: '' }
    return { ...unanswered, charged: 0n, transaction: '', body: String(error), response: null }
  }
}

/** Returns the body of the chat with this key. */
export function chatBody(idempotencyKey: string, isLong: boolean): Record<string, unknown> {
  const messages = [{ role: 'user', content: `say ${idempotencyKey}${isLong ? ' and write 3000 words' : ''}` }]
  return { model: 'textmodel-2.5-flash', messages, max_tokens: 1800 }
}

async function readAnswer(response: Response): Promise<ChatAnswer> {
  const body = await response.text()
  const json = JSON.parse(body) as Record<string, unknown>
  // A 402 has its code next to the specified fields, every other failure in `error`.
  const failure = (typeof json['error'] === 'object' ? json['error'] : json) as Record<string, string | undefined>
  const proof = response.headers.get('payment-response')
  const paid = proof === null ? undefined : decodePaymentResponseHeader(proof)
  return {
    status: response.status,
    code: response.status === 200 ? '' : (failure['code'] ?? ''),
    retry: response.status === 200 ? '' : (failure['retry'] ?? ''),
    payment: response.status === 200 ? 'settled' : (failure['payment'] ?? ''),
    receiptId: response.headers.get('x-receipt-id') ?? '',
    charged: BigInt(paid?.amount ?? 0),
    transaction: paid?.transaction ?? '',
    body,
  }
}

export interface ChatOptions {
  readonly idempotencyKey?: string
  readonly isLong?: boolean
  /** Adds a gas-sponsoring permit that is valid but for these members. */
  readonly permit?: Partial<PermitTerms>
}

/** Requests a challenge and signs it with a fresh nonce. Throws when there is no challenge. */
export async function signChat(baseUrl: string, payer: PayerOfAnyKind, options: ChatOptions = {}): Promise<SignedChat> {
  const { idempotencyKey = randomUUID(), isLong = false, permit } = options
  const { status, body, response } = await sendChat(baseUrl, idempotencyKey, {}, isLong)
  if (status !== 402 || response === null) throw new Error(`no challenge, but ${status} ${body}`)
  const required = challengeOf(response)
  const nonce = randomNonce()
  const payment = await signCustomPayment(required, payer, { terms: { nonce }, ...(permit ? { permit } : {}) })
  const maximum = BigInt(required.accepts[0]?.amount ?? 0)
  return { idempotencyKey, payer, nonce, maximum, headers: paymentHeader(payment), isLong }
}

export function payChat(baseUrl: string, { idempotencyKey, headers, isLong }: SignedChat): Promise<ChatAnswer> {
  return sendChat(baseUrl, idempotencyKey, headers, isLong)
}

/**
 * Repeats the same signed request for as long as the answers ask for that. Returns all answers; the last one is final.
 */
export async function payChatPatiently(
  baseUrls: readonly string[],
  chat: SignedChat,
  limitMs = CALLER_PATIENCE_MS,
): Promise<readonly [ChatAnswer, ...ChatAnswer[]]> {
  const giveUpAt = performance.now() + limitMs
  const answers: ChatAnswer[] = []
  for (let sent = 0; ; sent += 1) {
    const answer = await payChat(baseUrls[sent % baseUrls.length] ?? '', chat)
    answers.push(answer)
    if (answer.retry !== 'same_request' || performance.now() > giveUpAt) return answers as [ChatAnswer, ...ChatAnswer[]]
    await delay(RETRY_MS)
  }
}

/** Returns how often the upstream was called for each key. */
export async function upstreamCallsByKey(info: Pick<SandboxInfo, 'upstreamUrl'>): Promise<ReadonlyMap<string, number>> {
  const answer = await fetch(`${info.upstreamUrl}/_simulator/calls`)
  const { calls } = (await answer.json()) as { calls: { fields: Record<string, string> }[] }
  const counts = new Map<string, number>()
  for (const { fields } of calls) {
    const key = /say ([0-9a-f-]{36})/.exec(JSON.stringify(fields))?.[1]
    if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return counts
}
