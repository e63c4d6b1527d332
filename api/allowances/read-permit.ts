import { AppError } from '#shared/errors/app-error.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { invalidField } from '../request/field-errors.ts'
import { allowanceRequestSchema } from '../schemas/allowances.ts'

type Hex = `0x${string}`

/** Half of the curve's order: USDC refuses a signature whose `s` is above it. */
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n
const PARITY_BIT = 1n << 255n
const COMPACT_LENGTH = 130
const V_OF_EVEN = 27n

/** A signature in any of the forms that wallets return. */
type WalletSignature =
  | { readonly signature: string }
  | { readonly r: string; readonly s: string; readonly v: 0 | 1 | 27 | 28 }

/** A permit whose nonce its caller may have left out. */
export type PresentedPermit = Omit<AllowancePermit, 'nonce'> & { readonly nonce: bigint | null }

/** Reads the body of `POST /v1/allowances`. Throws the 400 of the first field that is wrong. */
export function readPermit(body: unknown, permit2: `0x${string}`): PresentedPermit {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new AppError('invalid_field', { message: 'The body must be a JSON object with the field permit.' })
  const parsed = allowanceRequestSchema.safeParse(body)
  if (!parsed.success) throw invalidField(parsed.error, body)
  const { owner, spender, value, nonce, deadline, ...signed } = parsed.data.permit
  if (spender !== undefined && spender.toLowerCase() !== permit2)
    throw new AppError('invalid_field', {
      param: 'permit.spender',
      message: `permit.spender must be Permit2 (${permit2}), the only spender whose permits are stored.`,
    })
  const signature = normalizeSignature(oneForm(signed))
  if (signature === null)
    throw new AppError('permit_invalid', {
      param: 'signature' in signed ? 'permit.signature' : 'permit.s',
      message: 'The signature is not canonical: v must be 27 or 28 and s in the lower half of the curve’s order.',
    })
  return { owner: owner.toLowerCase() as `0x${string}`, value, nonce: nonce ?? null, deadline, signature }
}

/** Returns the signature in the one form that was sent. Throws when there is none, or more than one. */
function oneForm({
  signature,
  v,
  r,
  s,
}: {
  signature?: string | undefined
  v?: 0 | 1 | 27 | 28 | undefined
  r?: string | undefined
  s?: string | undefined
}): WalletSignature {
  const isSplit = v !== undefined && r !== undefined && s !== undefined
  const hasPart = v !== undefined || r !== undefined || s !== undefined
  if (signature !== undefined && !hasPart) return { signature }
  if (signature === undefined && isSplit) return { v, r, s }
  const code = hasPart && signature !== undefined ? 'invalid_field' : 'missing_field'
  const message = 'Send either permit.signature or permit.v, permit.r and permit.s.'
  throw new AppError(code, { param: 'permit.signature', message })
}

/**
 * Returns the 65 bytes r, s, v with a v of 27 or 28, from 65 bytes, the 64 of EIP-2098, or the three numbers. Returns
 * `null` for a v that does not exist or a high `s`, which the asset refuses.
 */
function normalizeSignature(given: WalletSignature): Hex | null {
  const { r, s, v } =
    'signature' in given ? split(given.signature) : { ...given, s: BigInt(given.s), v: BigInt(given.v) }
  const recovery = v < V_OF_EVEN ? v + V_OF_EVEN : v
  if (s > HALF_ORDER || recovery > V_OF_EVEN + 1n) return null
  const digits = [r.slice(2), s.toString(16).padStart(64, '0'), recovery.toString(16)]
  return `0x${digits.join('').toLowerCase()}`
}

function split(signature: string): { r: string; s: bigint; v: bigint } {
  const [r, second] = [signature.slice(0, 66), BigInt(`0x${signature.slice(66, 130)}`)]
  if (signature.length > COMPACT_LENGTH) return { r, s: second, v: BigInt(`0x${signature.slice(130)}`) }
  // EIP-2098 keeps the parity in the highest bit of s.
  return { r, s: second & (PARITY_BIT - 1n), v: second >> 255n }
}
