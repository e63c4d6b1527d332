import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { ERROR_CODES, type ErrorCode, type ErrorCodeEntry } from '#shared/errors/error-codes.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { exposureError } from '../../api/paid-request/accept/exposure-errors.ts'

/** The statuses of statement O30 in test/contract/specification.ts. */
const ALLOWED_STATUSES = [400, 401, 402, 404, 405, 408, 409, 410, 412, 413, 415, 417, 429, 503]
const CODES: readonly (readonly [ErrorCode, ErrorCodeEntry])[] = Object.entries(ERROR_CODES) as [
  ErrorCode,
  ErrorCodeEntry,
][]
const advice = (status: number, isListed: (entry: ErrorCodeEntry) => boolean = () => true) =>
  new Set(
    CODES.filter(([, entry]) => entry.status === status && isListed(entry)).map(
      ([, entry]) => `${entry.retry} ${entry.payment}`,
    ),
  )

describe.each(CODES)('%s', (code, entry) => {
  it('every error code has a sentence as its public message', () => {
    expect(entry.message).toMatch(/^\S.{8,300}[.!]$/)
    expect(entry.message).not.toMatch(/\s{2}|undefined|\bTODO\b/)
  })

  it('every error code has an allowed status and a snake_case name', () => {
    expect(ALLOWED_STATUSES).toContain(entry.status)
    expect(code).toMatch(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/)
  })
})

describe('the table of error codes [spec O28]', () => {
  it('status 402 means that nothing was charged and a new payment helps, 400 that no retry helps', () => {
    expect(advice(402)).toEqual(new Set(['new_payment none']))
    expect(advice(400)).toEqual(new Set(['never none']))
  })

  it('no error code asks for another signature while the outcome of the first one is open', () => {
    const open = CODES.filter(([, { payment }]) => payment === 'unknown' || payment === 'authorized')
    expect(open.length).toBeGreaterThan(3)
    for (const [code, { status, retry }] of open)
      expect([code, retry === 'new_payment', status === 402 || status === 412]).toEqual([code, false, false])
  })

  it('a message says "nothing was charged" only for codes without a payment', () => {
    const uncharged = CODES.filter(([, { message }]) => /nothing was charged/i.test(message))
    expect(uncharged.length).toBeGreaterThan(5)
    for (const [code, { payment }] of uncharged) expect([code, payment]).toEqual([code, 'none'])
  })
})

describe('the refusal of a payer who owes', () => {
  it('names the key of the unpaid call, its charge, and that a fresh payment of it ends the debt', () => {
    const owed = {
      outcome: 'unpaid_debt' as const,
      idempotencyKey: 'key of the first call',
      chargeAmount: atomicAmount(5034n),
    }
    const { code, message } = exposureError(owed, atomicAmount(0n))
    expect(code).toBe('unpaid_debt')
    expect(message).toContain('First repeat the request with x-idempotency-key "key of the first call"')
    expect(message).toContain('a fresh payment (0.005034 USDC)')
  })
})

describe('AppError', () => {
  it('AppError takes its public fields from the table unless the caller overrides them', () => {
    expect(new AppError('not_found').message).toBe('Not found.')
    expect(new AppError('invalid_field', { message: 'Better.', param: 'model' })).toMatchObject({
      code: 'invalid_field',
      message: 'Better.',
      param: 'model',
      entry: ERROR_CODES.invalid_field,
    })
  })

  it('AppError does not expose its cause in its message', () => {
    const error = new AppError('internal_error', { cause: new Error('canary') })
    expect(error.message).not.toContain('canary')
    expect(error.cause).toBeInstanceOf(Error)
  })
})
