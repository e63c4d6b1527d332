import { z } from 'zod'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'

type Hex = `0x${string}`

/** A payer's EIP-2612 permit, which the extension `eip2612GasSponsoring` carries. */
export interface GasSponsoringPermit {
  readonly from: Hex
  readonly asset: Hex
  readonly spender: Hex
  readonly amount: bigint
  readonly nonce: bigint
  readonly deadline: bigint
  readonly signature: Hex
  readonly version: string
}

/** The payer's signed permission: single-use, with a deadline. Amounts and nonces are bigint, times Unix seconds. */
export interface Authorization {
  readonly network: string
  readonly asset: Hex
  readonly payer: Hex
  readonly payTo: Hex
  readonly facilitator: Hex
  readonly spender: Hex
  readonly authorizedMaximum: AtomicAmount
  readonly nonce: bigint
  readonly deadline: bigint
  readonly validAfter: bigint
  readonly signature: Hex
  readonly gasSponsoring: GasSponsoringPermit | null
}

/**
 * Returns the permit if it is for more than this payment: then it lasts, payments may share it, and only the settlement
 * contract can submit it. The proxy takes one of exactly the maximum.
 */
export function lastingPermitOf({
  gasSponsoring,
  authorizedMaximum,
}: Pick<Authorization, 'gasSponsoring' | 'authorizedMaximum'>): GasSponsoringPermit | null {
  return gasSponsoring !== null && gasSponsoring.amount > authorizedMaximum ? gasSponsoring : null
}

const hex = z.custom<Hex>((value) => typeof value === 'string' && /^0x[0-9a-f]*$/.test(value))
const integer = z.string().transform((digits) => BigInt(digits))

/** The stored JSON form, with every bigint as a decimal string. */
export const storedAuthorizationSchema = z.strictObject({
  network: z.string(),
  asset: hex,
  payer: hex,
  payTo: hex,
  facilitator: hex,
  spender: hex,
  authorizedMaximum: integer.transform(atomicAmount),
  nonce: integer,
  deadline: integer,
  validAfter: integer,
  signature: hex,
  gasSponsoring: z
    .strictObject({
      from: hex,
      asset: hex,
      spender: hex,
      amount: integer,
      nonce: integer,
      deadline: integer,
      signature: hex,
      version: z.string(),
    })
    .nullable(),
})

/** Serializes an authorization for storage. `storedAuthorizationSchema` parses it. */
export function storedAuthorization({ gasSponsoring, ...signed }: Authorization): string {
  const permit = gasSponsoring && {
    from: gasSponsoring.from,
    asset: gasSponsoring.asset,
    spender: gasSponsoring.spender,
    amount: gasSponsoring.amount,
    nonce: gasSponsoring.nonce,
    deadline: gasSponsoring.deadline,
    signature: gasSponsoring.signature,
    version: gasSponsoring.version,
  }
  return JSON.stringify({ ...signed, gasSponsoring: permit }, (_, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
}
