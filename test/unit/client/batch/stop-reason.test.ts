import { describe, expect, it } from 'vitest'
import { isLeftForLater, stopReasonOf } from '../../../../client/batch/run/stop-reason.ts'
import { BudgetExceeded } from '../../../../client/budget/budget-exceeded.ts'
import { ChallengeRefused } from '../../../../client/payment/check-challenge.ts'
import { FareboxError } from '../../../../client/wire/farebox-error.ts'

const error = (code: string) => new FareboxError({ code, problem: 'No.', money: 'none', advice: 'Wait.' })
const refused = (...terms: string[]) =>
  new ChallengeRefused(terms.map((term) => ({ term, expected: 'one', actual: 'another' })))

describe('what ends a batch', () => {
  it.each([
    [new BudgetExceeded('session', 5n, 1n, 2n), 'budget'],
    [new BudgetExceeded('day', 5n, 1n, 2n), 'budget'],
    [error('insufficient_funds'), 'funds'],
    [error('permit2_allowance_required'), 'funds'],
    [error('unpaid_debt'), 'funds'],
    [error('aborted'), 'interrupt'],
    [error('connection_lost'), 'service'],
    [refused('payTo'), 'service'],
    [refused('maximum', 'asset'), 'service'],
    [error('journal_unwritable'), 'local'],
  ] as const)('is what every other file would meet: %s', (met, reason) => {
    expect(stopReasonOf(met)).toBe(reason)
  })

  it.each([
    new BudgetExceeded('call', 5n, 1n, 2n),
    refused('maximum'),
    error('unsupported_audio'),
    error('result_expired'),
    error('provider_rejected'),
  ])('is nothing that concerns one file only: %s', (met) => {
    expect(stopReasonOf(met)).toBeUndefined()
  })

  it('leaves files for a later run that have no fault of their own', () => {
    expect((['budget', 'funds', 'interrupt', 'service', undefined] as const).map(isLeftForLater)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })
})
