import type { FareboxContext } from '../context.ts'
import { askForJson, type FreeRequest } from '../wire/ask-service.ts'
import { uncharged } from '../wire/farebox-error.ts'
import type { AllowanceStatus } from '../wire/schemas.ts'

/** What Permit2 may take from the wallet. Amounts are atomic USDC. */
export interface AllowanceState {
  readonly owner: string
  /** Permit2. */
  readonly spender: string
  readonly allowance: bigint
  readonly balance: bigint
  /** Whether the allowance covers the balance, so that calls need no permit and run in parallel. */
  readonly isApproved: boolean
  /** Whether the service would submit and pay for a permit of this wallet now, and otherwise why not. */
  readonly sponsoring: {
    readonly isAvailable: boolean
    readonly code: string | null
    readonly message: string | null
    readonly retryAfterMs: number | null
    /** The smallest balance and the smallest value of a permit that the service pays for. */
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
  const { sponsoring, typed_data: typedData } = status
  const texts = [status.network, status.asset, status.owner, status.spender, status.permit_nonce]
  const amounts = [status.allowance, status.balance_usdc_atomic, membersOf(sponsoring)['minimum_value']]
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
  const { owner, spender, sponsoring } = status
  const [allowance, balance] = [BigInt(status.allowance), BigInt(status.balance_usdc_atomic)]
  const { available: isAvailable, reason: code, message, retry_after_seconds: seconds } = sponsoring
  return {
    owner,
    spender,
    allowance,
    balance,
    isApproved: isSufficient({ allowance, balance }, UNLIMITED),
    sponsoring: {
      isAvailable,
      code,
      message,
      retryAfterMs: seconds === null ? null : seconds * 1000,
      minimumValue: BigInt(sponsoring.minimum_value),
    },
  }
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
