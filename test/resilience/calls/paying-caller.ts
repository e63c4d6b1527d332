import { setTimeout as delay } from 'node:timers/promises'
import { decodePaymentSignatureHeader } from '@x402/core/http'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type Payer } from '../../support/payer/payer.ts'
import type { CallerAnswer, CallRecord } from '../checker/ledgers.ts'
import { type CallKind, newCallRequest } from './call-requests.ts'
import { type Exchange, exchange } from './exchange.ts'
import { newCallRecord } from './recorded-call.ts'

export interface CallOptions {
  readonly kind: CallKind
  readonly payer: Payer
  /** Resolves when the first signed request may be sent; default: immediately. */
  readonly gate?: Promise<unknown>
  /** Aborts one exchange of the call, as a client that disconnects; the call continues with the next exchange. */
  readonly hangUp?: AbortSignal
  /** Sends the first signed request to this many APIs concurrently. */
  readonly duplicates?: number
}

/** A call in progress. */
export interface StartedCall {
  readonly record: CallRecord
  /** Resolves when the payment is signed and the request is about to be sent for the first time. */
  readonly signed: Promise<void>
  /** Resolves with the record when the client has its final answer; never rejects. */
  readonly finished: Promise<CallRecord>
}

/** A client that follows the service's documentation and records everything it sees. */
export interface PayingCaller {
  /** All calls so far, from the moment they began. */
  readonly records: readonly CallRecord[]
  /** All audio that was sent. */
  readonly audios: readonly Uint8Array[]
  start(options: CallOptions): StartedCall
  /** Repeats a call's last signed request; `null` for a call without one, or without an answer. */
  replay(record: CallRecord): Promise<CallerAnswer | null>
}

export interface CallerOptions {
  readonly baseUrls: readonly string[]
  /** The chain itself, without a proxy. */
  readonly rpcUrl: string
  readonly network: string
  /** The client gives up after this long without a final answer. */
  readonly patienceMs: number
  /** A request without an answer after so long is sent again, to the next API. */
  readonly answerWithinMs?: number | undefined
  /** Receives each call whose request had no answer. */
  readonly onLost?: ((record: CallRecord) => void) | undefined
  /** Chooses the first API. */
  readonly random: () => number
}

/** Caps `retry-after`: a campaign's client retries more often than a polite one. */
const LONGEST_PAUSE_MS = 300
/** How many payments a client signs for one call before it accepts a rejection as final. */
const MOST_SIGNATURES = 8

interface CallState {
  readonly record: CallRecord
  readonly body: string
  readonly client: PayingClient
  headers: Record<string, string> | null
}

export function createPayingCaller(options: CallerOptions): PayingCaller {
  const states = new Map<CallRecord, CallState>()
  const clients = new Map<string, PayingClient>()
  const audios: Uint8Array[] = []
  const clientOf = ({ address, privateKey }: Payer) => {
    const { rpcUrl, network } = options
    const client = clients.get(address) ?? createPayingClient({ privateKey, rpcUrl, network })
    clients.set(address, client)
    return client
  }
  const begin = ({ kind, payer }: CallOptions): CallState => {
    const request = newCallRequest(kind)
    if (request.audio) audios.push(request.audio)
    const record = newCallRecord(request, payer.address, `${kind}-${states.size + 1}`)
    const state: CallState = { record, body: request.body, client: clientOf(payer), headers: null }
    states.set(record, state)
    return state
  }
  return {
    get records() {
      return [...states.keys()]
    },
    audios,
    start: (call) => {
      const state = begin(call)
      const signed = Promise.withResolvers<void>()
      const finished = makeCall(options, state, call, signed.resolve).then(
        () => state.record,
        (error: unknown) => {
          state.record.problems.push(String(error))
          state.record.outcome = 'gave_up'
          return state.record
        },
      )
      void finished.then(() => signed.resolve())
      return { record: state.record, signed: signed.promise, finished }
    },
    replay: async (record) => {
      const state = states.get(record)
      if (!state?.headers) return null
      return (await exchange(options.rpcUrl, state, options.baseUrls[0]))?.answer ?? null
    },
  }
}

/** Retries until an answer is final: the result, a permanent rejection, or too many rejected payments. */
async function makeCall(
  options: CallerOptions,
  state: CallState,
  { gate, hangUp, duplicates = 1 }: CallOptions,
  onSigned: () => void,
): Promise<void> {
  const { record } = state
  const { baseUrls, random } = options
  let giveUpAt = Date.now() + options.patienceMs
  let hasPaid = false
  for (let turn = Math.floor(random() * baseUrls.length); Date.now() < giveUpAt; turn++) {
    const isFirstPayment = state.headers !== null && !hasPaid
    if (isFirstPayment) {
      hasPaid = true
      onSigned()
      const waitsSince = Date.now()
      await gate
      // The wait is the campaign's, not the service's.
      giveUpAt += Date.now() - waitsSince
    }
    const copies = isFirstPayment ? duplicates : 1
    const patienceMs = Math.min(giveUpAt - Date.now(), options.answerWithinMs ?? Number.POSITIVE_INFINITY)
    const outOfPatience = AbortSignal.timeout(Math.max(1, patienceMs))
    const signal = isFirstPayment && hangUp ? AbortSignal.any([hangUp, outOfPatience]) : outOfPatience
    const [answered = null] = await Promise.all(
      Array.from({ length: copies }, (_, index) =>
        send(options, state, baseUrls[(turn + index) % baseUrls.length], signal),
      ),
    )
    if (!answered) {
      options.onLost?.(record)
      await delay(LONGEST_PAUSE_MS / 3)
      continue
    }
    const next = isBeyond(giveUpAt, answered) ? 'refused' : await takeAdvice(state, answered)
    if (next !== 'again') {
      record.outcome = next
      return
    }
  }
  record.outcome = 'gave_up'
}

/**
 * Returns whether a payer whose settlements reverted has to wait for longer than the client does. How many reverted depends
 * on what reached the chain first, and the pauses between them double.
 */
function isBeyond(giveUpAt: number, { answer, response }: Exchange): boolean {
  const pauseMs = Number(response.headers.get('retry-after') ?? '0') * 1000
  return answer.code === 'settlement_retry_limit' && Date.now() + pauseMs > giveUpAt
}

async function takeAdvice(
  state: CallState,
  { answer, response, advice }: Exchange,
): Promise<'again' | 'released' | 'refused'> {
  if (answer.status === 200) return 'released'
  if (response.headers.has('payment-required') && answer.status === 402) {
    if (state.record.nonces.length >= MOST_SIGNATURES) return 'refused'
    await signChallenge(state, response)
    return 'again'
  }
  if (advice === 'never') return 'refused'
  if (advice === 'new_payment') {
    if (state.record.nonces.length >= MOST_SIGNATURES) return 'refused'
    // The next exchange is unpaid and gets the challenge to sign.
    state.headers = null
  }
  const seconds = Number(response.headers.get('retry-after') ?? '0')
  await delay(Math.min(LONGEST_PAUSE_MS, Math.max(50, seconds * 1000)))
  return 'again'
}

/** Signs a challenge. When that fails, the next exchange is unpaid and gets the challenge again. */
async function signChallenge(state: CallState, response: Response): Promise<void> {
  const headers = await state.client.sign(response).catch((error: unknown) => {
    state.record.problems.push(`could not sign: ${String(error)}`)
    return null
  })
  state.headers = headers
  if (headers === null) {
    await delay(LONGEST_PAUSE_MS)
    return
  }
  const [signature] = Object.values(headers)
  const { payload } = decodePaymentSignatureHeader(signature ?? '')
  const { permit2Authorization } = payload as { permit2Authorization: { nonce: string } }
  state.record.nonces.push(BigInt(permit2Authorization.nonce).toString())
}

/** Performs one exchange and records it when its answer arrived completely. */
async function send(
  { rpcUrl }: CallerOptions,
  state: CallState,
  baseUrl: string | undefined,
  signal: AbortSignal,
): Promise<Exchange | null> {
  const answered = await exchange(rpcUrl, state, baseUrl, signal)
  if (answered) state.record.answers.push(answered.answer)
  return answered
}
