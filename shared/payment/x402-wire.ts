import { z } from 'zod'
import { checkJsonStructure } from '#shared/json/check-json-structure.ts'
import { pathToUnstorable } from '#shared/json/storable-text.ts'

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

/** Long enough for a contract wallet's signature. Verification decides which kinds are supported. */
const signature = z
  .string()
  .regex(/^0x([0-9a-fA-F]{2}){1,4096}$/, { error: 'must be 0x and whole hexadecimal bytes' })
  .transform((text) => text.toLowerCase() as `0x${string}`)

/** The order of secp256k1: `r` and `s` are above zero and below it. Source: SEC 2, section 2.4.1. */
const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** 65 bytes r, s, v: the only form that EIP-2612's `permit(…, v, r, s)` accepts. */
const ecdsaSignature = signature.refine(isEcdsaSignature, {
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

const gasSponsoringSchema = z.looseObject({
  info: z.looseObject({
    from: address,
    asset: address,
    spender: address,
    amount: uint256,
    nonce: uint256,
    deadline: uint256,
    signature: ecdsaSignature,
    version: z.string(),
  }),
})

export type AcceptedTerms = z.output<typeof acceptedSchema>
export type Permit2Payload = z.output<typeof permit2PayloadSchema>
export type GasSponsoringPermit = z.output<typeof gasSponsoringSchema>['info']

/** A decoded `PAYMENT-SIGNATURE`. `gasSponsoring` is the payer's EIP-2612 permit, when the client attached one. */
export interface SignedPayment {
  readonly accepted: AcceptedTerms
  /** The resource that the client claims to pay for. The signature does not cover it. */
  readonly resourceUrl: string | null
  readonly payload: Permit2Payload
  readonly gasSponsoring: GasSponsoringPermit | null
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
  return { decoded: decodePayment(json), identifier: readPaymentIdentifier(json) }
}

/** Decodes a payment. `json` is `undefined` for invalid JSON. `reason` is shown to the caller. */
function decodePayment(json: unknown): DecodedPayment {
  if (json === undefined) return { outcome: 'malformed', reason: 'it is not one JSON object in standard Base64' }
  if (pathToUnstorable(json) !== null)
    return { outcome: 'malformed', reason: 'its text must be valid Unicode without lone surrogates and without U+0000' }
  const envelope = envelopeSchema.safeParse(json)
  if (!envelope.success) return malformed(envelope.error)
  const { accepted, resource, payload, extensions } = envelope.data
  if (accepted.scheme !== 'upto') return { outcome: 'other_scheme', scheme: accepted.scheme }
  const permit2Payload = permit2PayloadSchema.safeParse(payload)
  if (!permit2Payload.success) return malformed(permit2Payload.error, 'payload')
  const permit = readGasSponsoring(extensions)
  if (permit && !permit.success) return malformed(permit.error, 'extensions.eip2612GasSponsoring')
  return {
    outcome: 'decoded',
    payment: {
      accepted,
      resourceUrl: resource?.url ?? null,
      payload: permit2Payload.data,
      gasSponsoring: permit ? permit.data.info : null,
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

/**
 * Parses only what every decoder reads in the same way: padded Base64 without stray bits, of UTF-8, of JSON without
 * repeated keys, deep nesting or `__proto__`. A payment that two decoders read differently would be two payments. Returns
 * `undefined` for anything else.
 */
export function parseBase64Json(header: string): unknown {
  const bytes = Buffer.from(header, 'base64')
  if (header === '' || bytes.toString('base64') !== header) return undefined
  if (checkJsonStructure(bytes).outcome !== 'sound') return undefined
  try {
    const text = utf8.decode(bytes)
    // A reviver makes parsing several times slower, and no other text can have the key.
    return MAY_HAVE_PROTOTYPE_KEY.test(text) ? JSON.parse(text, rejectPrototypeKey) : JSON.parse(text)
  } catch {
    return undefined
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The key as it is, or an escape, which may spell a part of it. */
const MAY_HAVE_PROTOTYPE_KEY = /__proto__|\\u/

function rejectPrototypeKey(key: string, value: unknown): unknown {
  if (key === '__proto__') throw new SyntaxError('__proto__ is not a valid key')
  return value
}

function malformed(error: z.ZodError, prefix?: string): DecodedPayment {
  const [issue] = error.issues
  const path = [prefix, ...(issue?.path ?? [])].filter((part) => part !== undefined).join('.')
  return { outcome: 'malformed', reason: `${path || 'the payload'}: ${issue?.message ?? 'invalid'}` }
}
