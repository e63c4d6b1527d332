import { expect, it } from 'vitest'
import { createAllowances } from '../../../api/plugins/allowances.ts'
import { createUnreadLimiter } from '../../../api/plugins/unread-limit.ts'

const PER_MINUTE = 3
const PAID_PER_MINUTE = 5
const stranger = () => ({ ip: '192.0.2.1' })

function newLimiter() {
  const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
  // The clock stands still: no allowance is refilled.
  const allowances = createAllowances({ shared: null, logger, now: () => 0 })
  const limiter = createUnreadLimiter(allowances, {
    requestsPerMinute: PER_MINUTE,
    paidRequestsPerMinute: PAID_PER_MINUTE,
  })
  const takeUnpaid = () => allowances.take('unpaid', stranger().ip, PER_MINUTE)
  return { limiter, takeUnpaid }
}

const refused = expect.objectContaining({ code: 'rate_limited' })

it('a request that is never read counts as an unpaid one', () => {
  const { limiter, takeUnpaid } = newLimiter()
  limiter.takeAllowance(stranger())
  expect(takeUnpaid().remaining).toBe(PER_MINUTE - 2)
})

it('as many requests as the allowance has are read at a time', () => {
  const { limiter } = newLimiter()
  for (let taken = 0; taken < PER_MINUTE; taken++) limiter.takeAllowance(stranger())
  expect(() => limiter.takeAllowance(stranger())).toThrow(refused)
  limiter.takeAllowance({ ip: '192.0.2.2' })
})

it('a request that was read gets back what was taken for it, once', () => {
  const { limiter, takeUnpaid } = newLimiter()
  const [request, other] = [stranger(), stranger()]
  limiter.takeAllowance(request)
  limiter.takeAllowance(other)
  limiter.giveBack(request)
  limiter.giveBack(request)
  expect(takeUnpaid().remaining).toBe(PER_MINUTE - 2)
})

it('a network from which a known payer paid recently is read as often as paid requests beyond its unpaid ones', () => {
  const { limiter, takeUnpaid } = newLimiter()
  for (let taken = 0; taken < PER_MINUTE; taken++) takeUnpaid()
  limiter.rememberPayer(stranger())
  for (let taken = 0; taken < PAID_PER_MINUTE; taken++) {
    const request = stranger()
    limiter.takeAllowance(request)
    limiter.giveBack(request)
  }
  expect(() => limiter.takeAllowance(stranger())).toThrow(refused)
})
