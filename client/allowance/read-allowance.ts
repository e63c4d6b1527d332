import type { FareboxContext } from '../context.ts'
import { askForJson, type FreeRequest } from '../wire/ask-service.ts'
import { uncharged } from '../wire/farebox-error.ts'
import type { Allowance, AllowanceStatus } from '../wire/schemas.ts'

/** What Permit2 may take from the wallet. Amounts are atomic USDC. */
export interface AllowanceState {
  readonly owner: string
  /** Permit2. */
  readonly spender: string
  /** On chain, or by the permit that the service brings there with the next charge. */
  readonly allowance: bigint
  readonly balance: bigint
  /** Whether the allowance covers the balance, so that calls need no permit and run in parallel. */
  readonly isApproved: boolean
  /** Whether the service would store a permit of this wallet now, and otherwise why not. */
  readonly storing: {
    readonly isAvailable: boolean
    readonly code: string | null
    readonly message: string | null
    /** The smallest balance and the smallest value of a permit that the service stores. */
    readonly minimumValue: bigint
  }
}

/** Asks the service what Permit2 may take, and what to sign to change it. */
export async function askAllowance(
  context: Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer'>,
  request: Pick<FreeRequest, 'signal' | 'patienceMs'> = {},
): Promise<AllowanceStatus> {
  const url = new URL('/v1/allowances', context.baseUrl)
  url.searchParams.set('owner', context.payer)
  const status = await askForJson<AllowanceStatus>(context, url.href, request)
  if (isStatus(status)) return status
  throw uncharged(
    'unexpected_answer',
    `${url.origin} did not answer with an allowance.`,
    'Check the URL of the service; nothing was signed.',
  )
}

/** Numbers are read from it, and what is signed. */
function isStatus(status: { readonly [Name in keyof AllowanceStatus]: unknown }): boolean {
  const { storing, stored_permit: stored, typed_data: typedData } = status
  const texts = [status.network, status.asset, status.owner, status.spender, status.permit_nonce]
  const amounts = [status.allowance, status.balance_usdc_atomic, membersOf(storing)['minimum_value']]
  if (stored !== null) amounts.push(membersOf(stored)['value'])
  const objects = [membersOf(typedData)['domain'], membersOf(typedData)['message']]
  return (
    texts.every((text) => typeof text === 'string') &&
    amounts.every((amount) => typeof amount === 'string' && /^\d{1,78}$/.test(amount)) &&
    objects.every((object) => typeof object === 'object' && object !== null)
  )
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** Returns the status in the client's own terms. */
export function allowanceState(status: AllowanceStatus): AllowanceState {
  const { owner, spender, storing } = status
  const [allowance, balance] = [allowanceOf(status), BigInt(status.balance_usdc_atomic)]
  const { available: isAvailable, reason: code, message } = storing
  return {
    owner,
    spender,
    allowance,
    balance,
    isApproved: isSufficient({ allowance, balance }, UNLIMITED),
    storing: { isAvailable, code, message, minimumValue: BigInt(storing.minimum_value) },
  }
}

/** Returns what Permit2 may take on chain, or by the permit that the service brings there. */
export function allowanceOf({
  allowance,
  stored_permit: stored,
}: Pick<Allowance, 'allowance' | 'stored_permit'>): bigint {
  const [onChain, byPermit] = [BigInt(allowance), BigInt(stored?.value ?? 0)]
  return byPermit > onChain ? byPermit : onChain
}

/** The largest allowance. */
export const UNLIMITED = (1n << 256n) - 1n
/** Payments reduce an allowance without limit as well, but never below this. */
const PRACTICALLY_UNLIMITED = 1n << 200n

/** Returns whether calls need no permit: Permit2 may take what is wanted, or all that the wallet has. */
export function isSufficient(
  { allowance, balance }: Pick<AllowanceState, 'allowance' | 'balance'>,
  wanted: bigint,
): boolean {
  const least = wanted < PRACTICALLY_UNLIMITED ? wanted : PRACTICALLY_UNLIMITED
  return allowance > 0n && (allowance >= least || (balance > 0n && allowance >= balance))
}
