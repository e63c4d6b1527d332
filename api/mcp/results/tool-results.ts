import type { CallToolResult } from '@modelcontextprotocol/server'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { PAYMENT_IDENTIFIER } from '@x402/extensions'
import { z } from 'zod'
import { atomicAmount, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { PaidResponse } from '../../paid-request/job/respond.ts'
import type { RenderedError } from '../../plugins/errors.ts'
import type { quoteSchema } from '../../schemas/quotes.ts'
import type { PaidToolName } from '../../schemas/tool-operations.ts'
import { inTermsOfTools, META } from '../call-headers.ts'
import { contentOf } from './content.ts'

/** The members of a 402's body that its header does not have. */
const challengeSchema = z.object({
  message: z.string(),
  price: z.looseObject({ amount: z.string() }),
  code: z.string().optional(),
  payment: z.string().optional(),
  retry: z.string().optional(),
  permit: z.unknown().optional(),
})

/** Returns the result for an answer of an endpoint: paid, or the challenge of the call with this key. */
export function resultOf(tool: PaidToolName, response: PaidResponse, key: string): CallToolResult {
  return response.status === 200 ? paidResult(tool, response) : challengeResult(response, key)
}

/**
 * Everything but `_meta` is a function of the stored result and its settlement, so that repetitions of a call are equal.
 */
function paidResult(tool: PaidToolName, response: PaidResponse): CallToolResult {
  const { headers, body } = response
  if (headers['payment-response'] === undefined) return reServedResult(tool, response)
  const settlement = decodePaymentResponseHeader(headers['payment-response'])
  const { 'x-receipt-id': id = '', 'x-receipt-token': token, 'x-catalog-version': catalogVersion } = headers
  const charge = dollarsFromAtomic(atomicAmount(BigInt(settlement.amount ?? 0)))
  const result: unknown = JSON.parse(String(body))
  const paid = `Charged ${charge} USDC in transaction ${settlement.transaction}; receipt ${id}.`
  return {
    content: [{ type: 'text', text: paid }, ...contentOf(tool, result)],
    structuredContent: result,
    _meta: {
      [META.paymentResponse]: settlement,
      [META.receipt]: { id, token, charge_usdc: charge, catalog_version: catalogVersion },
    },
  }
}

/** The result of a call that an operator ended by returning it: there is no charge and no receipt. */
function reServedResult(tool: PaidToolName, { body }: PaidResponse): CallToolResult {
  const result: unknown = JSON.parse(String(body))
  const returned =
    'The operator returned this result after a review. Nothing was charged for it, and it has no receipt.'
  return { content: [{ type: 'text', text: returned }, ...contentOf(tool, result)], structuredContent: result }
}

/**
 * Names the key in the extension that clients repeat with their payment, so that one that knows no other name for it
 * sends it too.
 */
function challengeResult({ headers, body }: PaidResponse, key: string): CallToolResult {
  const {
    error = 'payment_required',
    extensions = {},
    ...required
  } = decodePaymentRequiredHeader(headers['payment-required'] ?? '')
  const { message: text, price, code, payment, retry, permit } = challengeSchema.parse(JSON.parse(String(body)))
  const message = inTermsOfTools(text)
  const identifier = extensions[PAYMENT_IDENTIFIER] as { readonly info?: object } | undefined
  const identified = { ...identifier, info: { ...identifier?.info, id: key } }
  const data = {
    ...required,
    error,
    extensions: { ...extensions, [PAYMENT_IDENTIFIER]: identified },
    // The page demands it of a payment that could not be settled.
    ...(code === 'settlement_failed' ? { [META.paymentResponse]: failedSettlement(code, required.accepts) } : {}),
  }
  return {
    isError: true,
    content: [{ type: 'text', text: JSON.stringify({ 'x402/error': { code: 402, message, data } }) }],
    structuredContent: data,
    _meta: {
      [META.key]: key,
      [META.price]: price,
      ...(code === undefined
        ? {}
        : { [META.refusal]: { code, message, payment, retry, ...(permit === undefined ? {} : { permit }) } }),
    },
  }
}

function failedSettlement(errorReason: string, accepts: readonly { readonly network: string }[]) {
  return { success: false, errorReason, transaction: '', network: accepts[0]?.network }
}

export function quoteResult(quote: z.infer<typeof quoteSchema>): CallToolResult {
  const { amount, currency } = quote.price
  return {
    content: [{ type: 'text', text: `This call costs at most ${amount} ${currency}. Nothing was charged.` }],
    structuredContent: quote,
  }
}

const MONEY = {
  none: 'Nothing was charged.',
  authorized: 'The payment is authorized and may still be charged, once.',
  settled: 'The call is paid for; repeated unchanged, it is not charged again.',
  unknown: 'It is not known whether the call was charged; repeated unchanged, it is charged once at most.',
} as const

const NEXT = {
  never: 'Repeating it unchanged does not help.',
  same_request: 'Repeat the same call, with the same payment if it had one.',
  new_payment: 'Repeat the same call with a newly signed payment.',
} as const

/** Returns the result of a call that failed: the error of the endpoint, in the terms of a tool call. */
export function errorResult({ error, body }: RenderedError): CallToolResult {
  const message = inTermsOfTools(body.error.message)
  const param = body.error.param === null ? null : inTermsOfTools(body.error.param)
  const { payment, retry } = error.entry
  const { 'x-receipt-id': receiptId } = error.headers
  return {
    isError: true,
    content: [{ type: 'text', text: `${message} ${MONEY[payment]} ${NEXT[retry]} (${error.code})` }],
    structuredContent: { ...body, error: { ...body.error, message, param } },
    _meta: {
      ...(error.retryAfterSeconds === undefined ? {} : { [META.retryAfter]: error.retryAfterSeconds }),
      ...(receiptId === undefined ? {} : { [META.receipt]: { id: receiptId } }),
    },
  }
}
