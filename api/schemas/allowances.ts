import { z } from 'zod'

export const walletAddressSchema = z.string().regex(/^0x[0-9a-fA-F]{40}$/)

export const walletBalanceSchema = z.strictObject({
  object: z.literal('wallet_balance'),
  network: z.literal('eip155:8453'),
  asset: z.string(),
  currency: z.literal('USDC'),
  wallet: z.string(),
  balance_usdc_atomic: z.string().regex(/^\d+$/),
  balance_usdc: z.string().regex(/^\d+(\.\d{1,6})?$/),
})

const UINT256_END = 1n << 256n

/** Decimal digits, or a JSON integer that JSON represents exactly. */
const uint256Schema = z
  .union([z.string().regex(/^(0|[1-9]\d{0,77})$/), z.int().min(0)], {
    error: 'must be a decimal string without sign or leading zeros, or an integer below 2^53',
  })
  .transform(BigInt)
  .refine((value) => value < UINT256_END, { error: 'must be below 2^256' })
const wordSchema = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, { error: 'must be 0x and 64 hexadecimal digits' })
  .optional()

/** An owner's EIP-2612 permit of USDC for Permit2, as a caller sends it. */
const presentedPermitSchema = z.strictObject({
  owner: walletAddressSchema.meta({ description: 'The wallet that signed.' }),
  spender: walletAddressSchema.optional().meta({ description: 'Permit2, the only spender whose permits are stored.' }),
  value: uint256Schema.meta({ description: 'What Permit2 may take in all, in atomic USDC.' }),
  nonce: uint256Schema
    .optional()
    .meta({ description: 'The permit nonce that was signed; the current one by default.' }),
  deadline: uint256Schema.meta({ description: 'Unix seconds.' }),
  signature: z
    .string()
    .regex(/^0x([0-9a-fA-F]{128}|[0-9a-fA-F]{130})$/, {
      error:
        'must be 65 bytes as 0x and hexadecimal digits, or 64 in the compact form of EIP-2098. A contract wallet cannot sign a permit: it approves Permit2 in a transaction of its own',
    })
    .optional(),
  v: z.union([z.literal(27), z.literal(28), z.literal(0), z.literal(1)], { error: 'must be 27 or 28' }).optional(),
  r: wordSchema,
  s: wordSchema,
})

export const allowanceRequestSchema = z.strictObject({ permit: presentedPermitSchema })

const atomicSchema = z.string().regex(/^\d+$/)

/** What an owner and the allowance of Permit2 are called in every answer. */
const partiesShape = {
  network: z.literal('eip155:8453'),
  asset: z.string(),
  owner: z.string(),
  spender: z.string().meta({ description: 'Permit2.' }),
}

/** The permit that waits for its owner's next charge. */
const storedPermitSchema = z
  .strictObject({ value: atomicSchema, nonce: atomicSchema, deadline: atomicSchema })
  .nullable()
  .meta({
    description:
      'The permit that the owner’s next charge brings to the chain, in atomic USDC and Unix seconds; a newer one takes its place. Kept until its nonce is used or its deadline has passed, at most 30 days; null without one.',
  })

export const allowanceSchema = z.strictObject({
  object: z.literal('allowance'),
  ...partiesShape,
  allowance: atomicSchema.meta({ description: 'What Permit2 may take at `block`, in atomic USDC.' }),
  block: z.int().nonnegative(),
  stored_permit: storedPermitSchema,
})

const typedDataSchema = z.strictObject({
  domain: z.record(z.string(), z.unknown()),
  types: z.record(z.string(), z.array(z.strictObject({ name: z.string(), type: z.string() }))),
  primaryType: z.literal('Permit'),
  message: z.record(z.string(), z.string()),
})

/** The transaction of a wallet that signs no permits. */
export const approvalSchema = z
  .strictObject({ to: z.string(), data: z.string() })
  .meta({ description: 'The transaction that approves Permit2 for USDC, lastingly: to the asset, without value.' })

/** What a 412 asks its payer to sign. */
export const requiredPermitSchema = z
  .strictObject({
    submit: z
      .strictObject({ method: z.literal('POST'), url: z.string() })
      .nullable()
      .meta({
        description:
          'Where the signed permit is stored, as an AllowanceRequest, before a freshly signed payment; null when it is for exactly `accepts[0].amount` and has to be sent with the payment, as its extension eip2612GasSponsoring. Where `extensions.eip2612GasSponsoring.info.lasting` is true, both are possible.',
      }),
    typed_data: typedDataSchema.meta({
      description:
        'What the payer signs (EIP-712), with their present permit nonce. Another value and deadline may replace these.',
    }),
  })
  .meta({
    description:
      'Only with a 412: the EIP-2612 permit of USDC for Permit2 that is missing. Absent when the same payment is refused again within seconds; GET /v1/allowances returns the same.',
  })

export const allowanceStatusSchema = z.strictObject({
  object: z.literal('allowance_status'),
  ...partiesShape,
  allowance: atomicSchema.meta({ description: 'What Permit2 may take, in atomic USDC.' }),
  balance_usdc_atomic: atomicSchema,
  permit_nonce: atomicSchema.meta({ description: 'The nonce of the next EIP-2612 permit.' }),
  block: z.int().nonnegative(),
  pays_without_permit: z.boolean().meta({ description: 'Whether a call up to `maximum_without_permit` needs none.' }),
  maximum_without_permit: atomicSchema,
  stored_permit: storedPermitSchema,
  storing: z.strictObject({
    available: z.boolean(),
    /** A code of the error table, with its message; `null` when a permit would be stored. */
    reason: z.string().nullable(),
    message: z.string().nullable(),
    minimum_value: atomicSchema.meta({ description: 'The smallest value of a permit, and balance of its owner.' }),
    minimum_deadline_seconds: z.int().positive().meta({ description: 'How far ahead its deadline must be.' }),
  }),
  wallet: z
    .strictObject({
      has_code: z.boolean(),
      may_pay: z.boolean().meta({
        description:
          'Whether the account’s own code is known, or it has none. What else that code asks is seen with each payment.',
      }),
      message: z.string().nullable().meta({ description: 'Why it may not pay.' }),
    })
    .meta({ description: 'The code of the owner’s account, as this service judges it.' }),
  approval: approvalSchema.nullable().meta({
    description: 'For a wallet that signs no permits: the transaction that approves Permit2 for USDC, lastingly.',
  }),
  typed_data: typedDataSchema.meta({
    description: 'What the owner signs (EIP-712). Any value and deadline within the limits may replace these.',
  }),
})
