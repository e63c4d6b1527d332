import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import type { PayerOfAnyKind } from '../../support/payer/payer.ts'
import { randomNonce } from '../../support/payer/sign-authorization.ts'
import { newCallRequest } from '../calls/call-requests.ts'
import { newCallRecord, readCallerAnswer } from '../calls/recorded-call.ts'
import type { CallerAnswer, CallRecord } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { type ClientAddress, clientAddress } from './client-address.ts'
import type { Wallets } from './wallets.ts'

/** Makes the vendor work for so long that an attacker can move the money away, or change what decides about it. */
export const TAKE_LONG = 'take your time'
export const LONG_MS = 1500

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
  payer: PayerOfAnyKind,
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

/** What every attack works with. */
export interface AttackContext extends AttackTarget {
  readonly stack: CampaignStack
  readonly wallets: Wallets
  /** Number of client addresses. */
  readonly addresses: number
  /** Receives each call that a vendor may be asked to work on. */
  readonly records: CallRecord[]
}

/** A way to cost the operator or other callers something. */
export interface Attack {
  /** Pause between attempts. */
  readonly pauseMs: number
  /** How many attempts run concurrently; default 1. */
  readonly concurrent?: number
  /** Returns what came of the attempt, for the tally. */
  attempt(context: AttackContext, turn: number): Promise<string>
}

/** The client of an attempt: each has another address. */
export const from = ({ addresses }: AttackContext, turn: number): ClientAddress => clientAddress(turn % addresses)

/** Requests and signs a call that a vendor may be asked to work on; `null` without a challenge. */
export async function paidCall(
  context: AttackContext,
  turn: number,
  wallet: PayerOfAnyKind,
  change: Parameters<typeof signAttackCall>[3],
): Promise<AttackCall | null> {
  const call = await signAttackCall(context, from(context, turn), wallet, change)
  if (call) context.records.push(call.record)
  return call
}

export function label(answer: CallerAnswer | null): string {
  return answer ? `${answer.status} ${answer.code ?? ''}`.trim() : 'no answer'
}
