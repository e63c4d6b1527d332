import { randomUUID } from 'node:crypto'
import { decodePaymentResponseHeader } from '@x402/core/http'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { CallerAnswer, CallRecord } from '../checker/ledgers.ts'
import type { CallRequest } from './call-requests.ts'

/** Returns the record of a call that begins now. */
export function newCallRecord({ path, marker }: CallRequest, payer: string, callId: string = randomUUID()): CallRecord {
  return {
    callId,
    idempotencyKey: randomUUID(),
    path,
    marker,
    payer: payer.toLowerCase(),
    answers: [],
    nonces: [],
    problems: [],
    outcome: null,
    unpayableSince: null,
    hindersSettlement: false,
  }
}

/**
 * Reads an answer to its end; one that reports a settlement is immediately compared with the chain. Campaigns request
 * only JSON, so every body is text. Throws when the answer is incomplete.
 */
export async function readCallerAnswer(response: Response, rpcUrl: string): Promise<CallerAnswer> {
  const bytes = Buffer.from(await response.arrayBuffer())
  const receivedAt = Date.now()
  const bodyText = bytes.toString('utf8')
  const payment = response.headers.get('payment-response')
  const { transaction = null, amount = null } = payment === null ? {} : decodePaymentResponseHeader(payment)
  return {
    receivedAt,
    status: response.status,
    code: response.status === 200 ? null : errorCodeOf(bodyText),
    bodySha256: sha256Hex(bytes),
    bodyText,
    receiptId: response.headers.get('x-receipt-id'),
    transaction,
    amount,
    wasMined: transaction === null || transaction === '' ? null : await isMined(rpcUrl, transaction),
  }
}

async function isMined(rpcUrl: string, hash: string): Promise<boolean | null> {
  try {
    const receipt = await callRpc<{ status: string } | null>(rpcUrl, 'eth_getTransactionReceipt', [hash])
    return receipt?.status === '0x1'
  } catch {
    return null
  }
}

function errorCodeOf(bodyText: string): string | null {
  try {
    const body = JSON.parse(bodyText) as { error?: { code?: string }; code?: string }
    return body.error?.code ?? body.code ?? null
  } catch {
    return null
  }
}
