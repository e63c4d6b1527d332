import { AppError } from '#shared/errors/app-error.ts'
import { walletAddressSchema } from '../schemas/allowances.ts'

/** Reads the wallet that a query names. Throws `missing_field` and `invalid_field`. */
export function readWallet(query: unknown, name: 'address' | 'owner'): `0x${string}` {
  const given = (query as Readonly<Record<string, unknown>>)[name]
  const parsed = walletAddressSchema.safeParse(given)
  if (parsed.success) return parsed.data as `0x${string}`
  const isMissing = given === undefined
  const message = isMissing
    ? `${name} is required: the wallet to look up, 0x and 40 hexadecimal digits.`
    : `${name} must be given once, as 0x and 40 hexadecimal digits.`
  throw new AppError(isMissing ? 'missing_field' : 'invalid_field', { param: name, message })
}
