import type { CallToolResult } from '@modelcontextprotocol/server'
import { FareboxError, type MoneyState } from '../../wire/farebox-error.ts'
import { ServiceError } from '../../wire/service-error.ts'
import { UNTRUSTED_RULE, untrusted } from '../content/untrusted.ts'

/** What a tool says about an error. `charged` means once; with `unknown`, the same call finds out and is charged once at most. */
interface ToolErrorForm {
  readonly code: string
  readonly message: string
  readonly advice: string
  readonly money: 'none' | 'unknown' | 'charged'
}

const MONEY: Readonly<Record<MoneyState, ToolErrorForm['money']>> = {
  none: 'none',
  authorized: 'unknown',
  unknown: 'unknown',
  settled: 'charged',
}

const MONEY_TEXTS: Readonly<Record<ToolErrorForm['money'], string>> = {
  none: 'Nothing was charged.',
  unknown: 'It is not known whether the call was charged; repeated unchanged, it is charged once at most.',
  charged: 'The call is paid for; repeated unchanged, it is not charged again.',
}

/** Codes of errors whose texts are this program's own, apart from the arguments of the call. */
const OWN_CODES: ReadonlySet<string> = new Set([
  'invalid_arguments',
  'request_id_conflict',
  'budget_exceeded',
  'too_many_refused',
  'price_above_limit',
  'limits_unusable',
  'confirmation_required',
  'confirmation_declined',
  'no_wallet',
  'no_service',
])

/** Returns the result of a call that failed. No stack trace and no unexpected message leaves the program. */
export function toolError(error: unknown): CallToolResult {
  const form = errorForm(error)
  const { code, message, advice, money } = form
  if (isOwn(error))
    return {
      isError: true,
      content: [{ type: 'text', text: `${message} ${MONEY_TEXTS[money]} ${advice} (${code})` }],
      structuredContent: { error: { ...form } },
    }
  return {
    isError: true,
    content: [
      { type: 'text', text: `The call failed (${code}). ${MONEY_TEXTS[money]} ${advice}` },
      ...untrusted('error', message),
    ],
    structuredContent: { error: { ...form }, notice: UNTRUSTED_RULE },
  }
}

function isOwn(error: unknown): boolean {
  if (!(error instanceof FareboxError)) return true
  return !(error instanceof ServiceError) && OWN_CODES.has(error.code)
}

/** Advice of the library about the wallet that only a person can follow. */
const PERSONS_ADVICE: Readonly<Record<string, string>> = {
  permit2_allowance_required: 'The person runs: farebox approve',
  not_approved: 'The person runs: farebox approve',
  permit_already_used:
    'Repeat the call later. With farebox approve, which the person runs once, calls run in parallel.',
  insufficient_funds: 'The person adds USDC to the wallet.',
}

function errorForm(error: unknown): ToolErrorForm {
  if (error instanceof FareboxError) {
    const { code, problem, money } = error
    // An agent does not know the keys, which follow from the call.
    const own = error.advice.replaceAll('the call with the same key', 'the call unchanged')
    const advice = PERSONS_ADVICE[code] ?? own
    return { code, message: problem, advice, money: MONEY[money] }
  }
  return {
    code: 'internal_error',
    message: 'The tool failed for a reason that it does not know.',
    advice: 'Repeat the call unchanged; standard error of the server has the reason.',
    money: 'unknown',
  }
}
