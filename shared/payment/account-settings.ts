import { z } from 'zod'

/** Addresses up to here are precompiled contracts and samples: nobody has their keys. */
const LAST_RESERVED_ADDRESS = 0xffffn

/** The order of secp256k1: a private key is less than it, and not zero. */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** An address that somebody can have the key of, in lower case. */
export const accountAddress = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, 'must be an address: 0x and 40 hexadecimal digits')
  .transform((text) => text.toLowerCase() as `0x${string}`)
  .refine((address) => BigInt(address) > LAST_RESERVED_ADDRESS, {
    error: 'is a sample or a precompiled contract, from which nobody can spend; use an address whose key you have',
  })

/** A private key that signs transactions. */
export const privateKey = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, 'must be a private key: 0x and 64 hexadecimal digits')
  .transform((text) => text as `0x${string}`)
  .refine((key) => BigInt(key) > 0n && BigInt(key) < CURVE_ORDER, {
    error: 'is not a private key: zero, as in .env.example, and numbers beyond the order of the curve have no address',
  })

/** Comma-separated addresses. */
export const accountAddresses = z
  .string()
  .transform((list) => list.split(','))
  .pipe(z.tuple([accountAddress], accountAddress))

/** The settings of the console and `npm run resolve` for refunds. */
export const refundSettings = {
  /** Accounts that may refund a payment besides its recipient. */
  REFUND_SENDERS: accountAddresses.optional(),
}
