import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import { type ErrorCode, type ErrorCodeEntry, errorCodes } from '#shared/errors/error-codes.ts'

/** The specification's own four, and those that the decisions page adds. */
const ALLOWED_STATUSES = [400, 401, 402, 404, 405, 409, 410, 412, 413, 415, 429, 503]

const codes: readonly (readonly [ErrorCode, ErrorCodeEntry])[] = Object.entries(errorCodes) as [
  ErrorCode,
  ErrorCodeEntry,
][]

describe.each(codes)('%s', (code, entry) => {
  it('has a sentence for the caller', () => {
    expect(entry.message).toMatch(/^\S.{8,300}[.!]$/)
    expect(entry.message).not.toMatch(/\s{2}|undefined|\bTODO\b/)
  })

  it('has an allowed status and a name in the form of all codes', () => {
    expect(ALLOWED_STATUSES).toContain(entry.status)
    expect(code).toMatch(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/)
  })
})

const advice = (status: number) =>
  new Set(codes.filter(([, entry]) => entry.status === status).map(([, entry]) => `${entry.retry} ${entry.payment}`))

describe('the table', () => {
  it('answers 402 only where nothing was charged and a new payment helps, and 400 only where nothing helps', () => {
    expect(advice(402)).toEqual(new Set(['new_payment none']))
    expect(advice(400)).toEqual(new Set(['never none']))
  })

  it('never asks for another signature while the outcome of the first is open', () => {
    const open = codes.filter(([, { payment }]) => payment === 'unknown' || payment === 'authorized')
    expect(open.length).toBeGreaterThan(3)
    for (const [code, { status, retry }] of open)
      expect([code, retry === 'new_payment', status === 402 || status === 412]).toEqual([code, false, false])
  })

  it('says that nothing was charged only where that is so', () => {
    const uncharged = codes.filter(([, { message }]) => /nothing was charged/i.test(message))
    expect(uncharged.length).toBeGreaterThan(5)
    for (const [code, { payment }] of uncharged) expect([code, payment]).toEqual([code, 'none'])
  })
})

describe('an AppError', () => {
  it('takes what is public from the table unless the place of failure knows better', () => {
    expect(new AppError('not_found').message).toBe('Not found.')
    expect(new AppError('invalid_field', { message: 'Better.', param: 'model' })).toMatchObject({
      code: 'invalid_field',
      message: 'Better.',
      param: 'model',
      entry: errorCodes.invalid_field,
    })
  })

  it('keeps its cause apart from what is public', () => {
    const error = new AppError('internal_error', { cause: new Error('canary') })
    expect(error.message).not.toContain('canary')
    expect(error.cause).toBeInstanceOf(Error)
  })
})
