import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import type { Payer } from '../../support/payer/payer.ts'
import { randomNonce } from '../../support/payer/sign-authorization.ts'
import { newCallRequest } from '../calls/call-requests.ts'
import { newCallRecord, readCallerAnswer } from '../calls/recorded-call.ts'
import type { CallerAnswer, CallRecord } from '../checker/ledgers.ts'
import type { ClientAddress } from './client-address.ts'

/** A chat that an attacker pays for, or pretends to. */
export interface AttackCall {
  readonly record: CallRecord
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export interface AttackTarget {
  readonly baseUrl: string
  /** The chain itself, without a proxy. */
  readonly rpcUrl: string
}

/** Requests a challenge for a chat and signs it; `null` when there is none. `change` alters the request. */
export async function signAttackCall(
  { baseUrl }: AttackTarget,
  from: ClientAddress,
  payer: Payer,
  change: { readonly text?: string; readonly fields?: Readonly<Record<string, unknown>> } = {},
): Promise<AttackCall | null> {
  const request = newCallRequest('chat')
  const chat = JSON.parse(request.body) as { messages: { content: unknown }[] }
  const content = `${change.text ?? ''} ${request.marker}`.trim()
  const body = JSON.stringify({ ...chat, messages: [{ role: 'user', content }], ...change.fields })
  const record = newCallRecord(request, payer.address)
  const unpaid = { 'content-type': 'application/json', 'x-idempotency-key': record.idempotencyKey }
  const challenge = await from.request(`${baseUrl}${record.path}`, { headers: unpaid, body })
  if (challenge?.status !== 402) return null
  const nonce = randomNonce()
  const payment = await signCustomPayment(challengeOf(challenge), payer, { terms: { nonce } })
  record.nonces.push(nonce.toString())
  return { record, body, headers: { ...unpaid, ...paymentHeader(payment) } }
}

/** Sends the signed chat and records the answer; `null` when none came within `patienceMs`. */
export async function sendAttackCall(
  { baseUrl, rpcUrl }: AttackTarget,
  from: ClientAddress,
  { record, body, headers }: AttackCall,
  patienceMs?: number,
): Promise<CallerAnswer | null> {
  const sent = { headers, body, ...(patienceMs === undefined ? {} : { patienceMs }) }
  const response = await from.request(`${baseUrl}${record.path}`, sent)
  if (!response) return null
  const answer = await readCallerAnswer(response, rpcUrl)
  record.answers.push(answer)
  return answer
}
