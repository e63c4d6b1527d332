import { AppError } from '#shared/errors/app-error.ts'
import { type AtomicAmount, atomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'

/**
 * Checks a maximum price, before it is raised to the minimum, against the published bound of one call. Throws
 * `maximum_price_exceeded` (400) with the excess, `param` and `advice`.
 */
export function refuseAboveBound(exact: AtomicAmount, maximumUsd: string, param: string, advice: string): void {
  const bound = atomicFromDollars(maximumUsd)
  if (exact <= bound) return
  const excess = dollarsFromAtomic(atomicAmount(exact - bound))
  throw new AppError('maximum_price_exceeded', {
    param,
    message: `The maximum price of this request is ${dollarsFromAtomic(exact)} USD, which is ${excess} USD above the bound of ${maximumUsd} USD for one call. ${advice}`,
  })
}
