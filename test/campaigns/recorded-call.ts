import { randomUUID } from 'node:crypto'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { callRpc } from '../../infra/sandbox/json-rpc.ts'
import { generateMp3 } from '../support/mp3-generator.ts'
import type { CallerAnswer, CallRecord } from './checker/ledgers.ts'

export const callKinds = ['chat', 'messages', 'image', 'speech', 'transcription'] as const
export type CallKind = (typeof callKinds)[number]

/** A request that no other call of the campaign equals, with what the upstream will know it by. */
export interface CampaignRequest {
  readonly kind: CallKind
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly marker: string
  /** A run of the audio's bytes that no encrypted object may contain. */
  readonly canary: Buffer | null
}

const CANARY_BYTES = 48

/** Small ones: what is tried is the way, not the work. */
export function newRequest(kind: CallKind): CampaignRequest {
  const marker = `call-${randomUUID()}`
  const text = `Repeat after me, please, without leaving anything out: ${marker}`
  const ask = (path: string, body: Readonly<Record<string, unknown>>) => ({ kind, path, body, marker, canary: null })
  const chat = { max_tokens: 64, messages: [{ role: 'user', content: text }] }
  switch (kind) {
    case 'chat':
      return ask('/v1/chat/completions', { model: 'textmodel-3.5-flash', ...chat })
    case 'messages':
      return ask('/v1/messages', { model: 'textmodel-2.5-pro', ...chat })
    case 'image':
      return ask('/v1/images/generations', { model: 'textmodel-3.1-flash-lite-image', prompt: text })
    case 'speech':
      return ask('/v1/audio/speech', { model: 'speechvendor/flash-v2.5', input: text, voice: 'talia' })
    case 'transcription': {
      const audio = Buffer.from(generateMp3({ durationMs: 400, seed: marker }))
      const middle = Math.floor(audio.length / 2)
      return {
        kind,
        path: '/v1/audio/transcriptions',
        body: { model: 'speechvendor/scribe-v2', audio_base64: audio.toString('base64') },
        marker: sha256Hex(audio),
        canary: audio.subarray(middle, middle + CANARY_BYTES),
      }
    }
  }
}

/** The record of a call that begins now. */
export function newCallRecord({ path, marker }: CampaignRequest, payer: string): CallRecord {
  return {
    callId: randomUUID(),
    idempotencyKey: randomUUID(),
    path,
    marker,
    payer: payer.toLowerCase(),
    answers: [],
    nonces: [],
    outcome: null,
    unpayableSince: null,
  }
}

/** Reads an answer to the end and writes down what it was; a success is compared with the chain at once. Throws when it is cut. */
export async function readCallerAnswer(response: Response, rpcUrl: string): Promise<CallerAnswer> {
  const bytes = Buffer.from(await response.arrayBuffer())
  const receivedAt = Date.now()
  const isText = response.headers.get('content-type')?.startsWith('application/json') ?? false
  const payment = response.headers.get('payment-response')
  const settled = response.status === 200 && payment !== null ? decodePaymentResponseHeader(payment) : null
  return {
    receivedAt,
    status: response.status,
    code: response.status === 200 ? null : errorCodeOf(bytes),
    bodySha256: sha256Hex(bytes),
    bodyText: isText ? bytes.toString('utf8') : null,
    receiptId: response.headers.get('x-receipt-id'),
    transaction: settled === null ? null : settled.transaction.toLowerCase(),
    amount: settled?.amount ?? null,
    wasMined: settled ? await isMined(rpcUrl, settled.transaction) : null,
  }
}

async function isMined(rpcUrl: string, hash: string): Promise<boolean | null> {
  if (hash === '') return null
  try {
    const receipt = await callRpc<{ status: string } | null>(rpcUrl, 'eth_getTransactionReceipt', [hash])
    return receipt?.status === '0x1'
  } catch {
    return null
  }
}

function errorCodeOf(bytes: Buffer): string | null {
  try {
    const body = JSON.parse(bytes.toString('utf8')) as { error?: { code?: string }; code?: string }
    return body.error?.code ?? body.code ?? null
  } catch {
    return null
  }
}
