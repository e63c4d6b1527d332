import { z } from 'zod'
import { parseUntrustedJson, type UntrustedJson } from '#shared/json/untrusted-json.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from './authorization.ts'
import { HOW_TO_PAY } from './how-to-pay.ts'
import { unwrapSignature } from './wallet-signature.ts'

/**
 * The x402 v2 wire format of scheme `upto`, validated more strictly than by the protocol packages, which only cast.
 * Amounts, nonces and times are decimal strings; addresses and signatures are hexadecimal and converted to lower case.
 */

const MAXIMUM_UINT256 = 2n ** 256n - 1n

const uint256 = z
  .string()
  .regex(/^(0|[1-9][0-9]{0,77})$/, { error: 'must be a decimal integer' })
  .transform((digits) => BigInt(digits))
  .refine((value) => value <= MAXIMUM_UINT256, { error: 'must fit 256 bits' })

const address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/, { error: 'must be 0x and 40 hexadecimal digits' })
  .transform((text) => text.toLowerCase() as `0x${string}`)

/**
 * Long enough for a wallet's signature, which may have as many parts as it has owners: a passkey's has 640 bytes, in an
 * envelope of ERC-6492 about 1,200; ten owners sign 650. Verification decides which kinds are supported.
 */
const MAXIMUM_SIGNATURE_BYTES = 4096
const signature = z
  .string()
  .max(2 + 2 * MAXIMUM_SIGNATURE_BYTES, { error: `must have at most ${MAXIMUM_SIGNATURE_BYTES} bytes` })
  .regex(/^0x([0-9a-fA-F]{2})+$/, { error: 'must be 0x and whole hexadecimal bytes' })
  .transform((text) => text.toLowerCase() as `0x${string}`)

/** The order of secp256k1: `r` and `s` are above zero and below it. Source: SEC 2, section 2.4.1. */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** Characters of `0x` and 65 bytes. */
const ECDSA_LENGTH = 132

/**
 * 65 bytes r, s, v: the only form that EIP-2612's `permit(…, v, r, s)` accepts. Of another length it is a wallet's, which
 * official clients send all the same, and without effect.
 */
const permitSignature = signature.refine((hex) => hex.length !== ECDSA_LENGTH || isEcdsaSignature(hex), {
  error: 'must be an ECDSA signature of 65 bytes (r, s and v of 27 or 28)',
})

function isEcdsaSignature(hex: string): boolean {
  if (!/^0x[0-9a-f]{128}(00|01|1b|1c)$/.test(hex)) return false
  return [hex.slice(2, 66), hex.slice(66, 130)].map((digits) => BigInt(`0x${digits}`)).every(isScalar)
}

function isScalar(value: bigint): boolean {
  return value > 0n && value < CURVE_ORDER
}

/** The chosen `accepts` entry. Only its shape is checked here; verification compares it with the challenge. */
const acceptedSchema = z.looseObject({
  scheme: z.string(),
  network: z.string(),
  amount: z.string(),
  asset: z.string(),
  payTo: z.string(),
  maxTimeoutSeconds: z.number(),
  extra: z.record(z.string(), z.unknown()).optional(),
})

const envelopeSchema = z.looseObject({
  x402Version: z.literal(2),
  /** Optional in the protocol. Clients that send it echo the challenge's. */
  resource: z.looseObject({ url: z.string() }).optional(),
  accepted: acceptedSchema,
  payload: z.record(z.string(), z.unknown()),
  extensions: z.record(z.string(), z.unknown()).optional(),
})

const permit2PayloadSchema = z.strictObject({
  signature,
  permit2Authorization: z.strictObject({
    from: address,
    permitted: z.strictObject({ token: address, amount: uint256 }),
    spender: address,
    nonce: uint256,
    deadline: uint256,
    witness: z.strictObject({ to: address, facilitator: address, validAfter: uint256 }),
  }),
})

/**
 * What clients without the scheme `upto` sign and send all the same. Sources: x402 v1 and v2, scheme `exact` on EVM and
 * SVM; @dexterai/x402 2.0 sends the first under the name `upto`.
 */
const OTHER_PAYMENTS: readonly (readonly [z.ZodType, string])[] = [
  [
    z.looseObject({ payload: z.looseObject({ authorization: z.looseObject({}) }), x402Version: z.literal(2) }),
    'a transfer of the whole maximum (EIP-3009) was signed',
  ],
  [
    z.looseObject({
      payload: z.looseObject({
        permit2Authorization: z.looseObject({ witness: z.looseObject({ facilitator: z.undefined().optional() }) }),
      }),
    }),
    'a Permit2 authorization of scheme "exact" was signed, which has no witness.facilitator',
  ],
  [z.looseObject({ payload: z.looseObject({ transaction: z.string() }) }), 'a whole transaction was signed'],
  [z.looseObject({ x402Version: z.literal(1) }), 'a payment of x402Version 1 was signed'],
]

const gasSponsoringSchema = z.looseObject({
  info: z.looseObject({
    from: address,
    asset: address,
    spender: address,
    amount: uint256,
    nonce: uint256,
    deadline: uint256,
    signature: permitSignature,
    version: z.string(),
  }),
})

export type AcceptedTerms = z.output<typeof acceptedSchema>

/** A decoded `PAYMENT-SIGNATURE`. */
export interface SignedPayment {
  readonly accepted: AcceptedTerms
  /** The resource that the client claims to pay for. The signature does not cover it. */
  readonly resourceUrl: string | null
  /** What was signed. Nothing of it is verified. */
  readonly authorization: Authorization
  /** Whether the signature came in an envelope for a wallet that may not be deployed yet (ERC-6492). */
  readonly isWrapped: boolean
}

export type DecodedPayment =
  | { outcome: 'decoded'; payment: SignedPayment }
  | { outcome: 'other_scheme'; scheme: string }
  | { outcome: 'malformed'; reason: string }

/** The content of a `PAYMENT-SIGNATURE` value. */
export interface PaymentHeader {
  readonly decoded: DecodedPayment
  /** Its `payment-identifier`, or `null`. The rest of the payment may still be malformed. */
  readonly identifier: string | null
}

/** Decodes a `PAYMENT-SIGNATURE` value: standard base64 of UTF-8 JSON. Never throws. */
export function openPaymentHeader(header: string): PaymentHeader {
  const json = parseBase64Json(header)
  return { decoded: decodePayment(json), identifier: readPaymentIdentifier(json?.value) }
}

/** Decodes a payment. `reason` is shown to the caller. */
function decodePayment(json: UntrustedJson | null): DecodedPayment {
  if (json === null) return { outcome: 'malformed', reason: 'it is not one JSON object in standard Base64' }
  if (!json.isStorable)
    return { outcome: 'malformed', reason: 'its text must be valid Unicode without lone surrogates and without U+0000' }
  const envelope = envelopeSchema.safeParse(json.value)
  if (envelope.success && envelope.data.accepted.scheme !== 'upto')
    return { outcome: 'other_scheme', scheme: envelope.data.accepted.scheme }
  const other = OTHER_PAYMENTS.find(([schema]) => schema.safeParse(json.value).success)
  if (other) {
    const [, signed] = other
    return {
      outcome: 'malformed',
      reason: `${signed}, but this service takes a Permit2 authorization of scheme "upto"; nothing was submitted. Use a client with that scheme. ${HOW_TO_PAY}`,
    }
  }
  if (!envelope.success) return malformed(envelope.error)
  const { accepted, resource, payload, extensions } = envelope.data
  const permit2Payload = permit2PayloadSchema.safeParse(payload)
  if (!permit2Payload.success) return malformed(permit2Payload.error, 'payload')
  const permit = readGasSponsoring(extensions)
  if (permit && !permit.success) return malformed(permit.error, 'extensions.eip2612GasSponsoring')
  const { permit2Authorization: signed } = permit2Payload.data
  const { signature, isWrapped } = unwrapSignature(permit2Payload.data.signature)
  return {
    outcome: 'decoded',
    payment: {
      accepted,
      resourceUrl: resource?.url ?? null,
      authorization: {
        network: accepted.network,
        asset: signed.permitted.token,
        payer: signed.from,
        payTo: signed.witness.to,
        facilitator: signed.witness.facilitator,
        spender: signed.spender,
        authorizedMaximum: atomicAmount(signed.permitted.amount),
        nonce: signed.nonce,
        deadline: signed.deadline,
        validAfter: signed.witness.validAfter,
        signature,
        gasSponsoring: permit?.data.info.signature.length === ECDSA_LENGTH ? permit.data.info : null,
      },
      isWrapped,
    },
  }
}

/** The extension with a client's identifier in its `info`. A client that only echoes the declaration sends none. */
const paymentIdentifierSchema = z.looseObject({
  extensions: z.looseObject({ 'payment-identifier': z.looseObject({ info: z.looseObject({ id: z.string() }) }) }),
})

function readPaymentIdentifier(json: unknown): string | null {
  const parsed = paymentIdentifierSchema.safeParse(json)
  return parsed.success ? parsed.data.extensions['payment-identifier'].info.id : null
}

const declarationSchema = z.looseObject({ info: z.looseObject({ signature: z.unknown().optional() }) })

/**
 * Returns the permit, if any. Clients echo the server's declaration even without one: only an `info` with a signature
 * is a permit.
 */
function readGasSponsoring(extensions: Record<string, unknown> | undefined) {
  const extension = extensions?.['eip2612GasSponsoring']
  if (extension === undefined) return null
  const declared = declarationSchema.safeParse(extension)
  if (declared.success && declared.data.info.signature === undefined) return null
  return gasSponsoringSchema.safeParse(extension)
}

/** Parses padded Base64 without stray bits of JSON that every decoder reads in the same way. `null` for anything else. */
function parseBase64Json(header: string): UntrustedJson | null {
  const bytes = Buffer.from(header, 'base64')
  return header === '' || bytes.toString('base64') !== header ? null : parseUntrustedJson(bytes)
}

function malformed(error: z.ZodError, prefix?: string): DecodedPayment {
  const [issue] = error.issues
  const path = [prefix, ...(issue?.path ?? [])].filter((part) => part !== undefined).join('.')
  return { outcome: 'malformed', reason: `${path || 'the payload'}: ${issue?.message ?? 'invalid'}` }
}
