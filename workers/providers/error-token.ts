import { z } from 'zod'

/**
 * A name in a vendor's error, such as `rate_limit_error`, `INVALID_ARGUMENT` or `BadRequestError`. Anything that is not
 * words of letters joined by underscores counts as absent: names are stored and logged, and a vendor might quote the
 * caller's text in that place.
 */
export const errorToken = z
  .string()
  .max(64)
  .regex(/^[A-Za-z]+(?:_[A-Za-z]+)*$/)
  .nullish()
  .transform((name) => name ?? undefined)
  .catch(undefined)
