import { AppError } from '#shared/errors/app-error.ts'
import type { AllowancePermit } from '#shared/payment/allowance-permit.ts'
import { invalidField } from '../request/field-errors.ts'
import { allowanceRequestSchema } from '../schemas/allowances.ts'
import { normalizeSignature, type WalletSignature } from './normalize-signature.ts'

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
      message: `permit.spender must be Permit2 (${permit2}), the only spender whose permits are sponsored.`,
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
