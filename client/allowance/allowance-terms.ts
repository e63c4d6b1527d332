import type { FareboxContext } from '../context.ts'
import type { Challenge } from '../payment/challenge.ts'
import { ChallengeRefused, type Difference, type Terms } from '../payment/check-challenge.ts'
import type { LastingPermit } from '../payment/sign-payment.ts'
import type { TypedData } from '../wallet/wallet.ts'
import type { AllowanceStatus } from '../wire/schemas.ts'

/** The same on every chain. The package that exports it takes most of a second to load. */
export const PERMIT2_ADDRESS = '0x000000000022D473030F116dDEE9F6B43aC78BA3'

const field = (name: string, type: string) => ({ name, type })
const PERMIT_TYPES = {
  Permit: [
    field('owner', 'address'),
    field('spender', 'address'),
    field('value', 'uint256'),
    field('nonce', 'uint256'),
    field('deadline', 'uint256'),
  ],
}
/** A permit with a later deadline is not signed: an hour is usual, and clocks differ. */
const LONGEST_PERMIT_MS = 86_400_000

/** What a permit must agree with. */
export interface ExpectedPermit {
  readonly terms: Partial<Terms>
  readonly owner: string
  readonly now: number
}

/**
 * Returns the EIP-2612 message that lets Permit2 take `value`. Only the asset's name and version, nonce and deadline come
 * from the service. Throws `ChallengeRefused` when its status is about another wallet, asset, network or spender.
 */
export function permitMessage(status: AllowanceStatus, value: bigint, expected: ExpectedPermit): TypedData {
  const { domain, message } = status.typed_data
  const chainId = Number(status.network.split(':')[1])
  requireExpected(status, chainId, expected)
  return {
    domain: {
      name: String(domain['name']),
      version: String(domain['version']),
      chainId,
      verifyingContract: status.asset as `0x${string}`,
    },
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: {
      owner: status.owner,
      spender: PERMIT2_ADDRESS,
      value,
      nonce: BigInt(status.permit_nonce),
      deadline: BigInt(message['deadline'] ?? ''),
    },
  }
}

function requireExpected(status: AllowanceStatus, chainId: number, { terms, owner, now }: ExpectedPermit): void {
  const { domain, message } = status.typed_data
  const compared: readonly (readonly [string, unknown, unknown])[] = [
    ['network', terms.network ?? status.network, status.network],
    ['asset', terms.asset ?? lower(status.asset), lower(status.asset)],
    ['owner', owner, lower(status.owner)],
    ['spender', lower(PERMIT2_ADDRESS), lower(status.spender)],
    ['chain id', chainId, domain['chainId']],
    ['contract', lower(status.asset), lower(domain['verifyingContract'])],
  ]
  const differences: Difference[] = compared
    .filter(([, wanted, actual]) => wanted !== actual)
    .map(([term, wanted, actual]) => ({ term, expected: String(wanted), actual: String(actual) }))
  const numbers = [
    ['nonce', status.permit_nonce],
    ['deadline', message['deadline'] ?? ''],
  ] as const
  for (const [term, actual] of numbers)
    if (!/^\d{1,78}$/.test(actual)) differences.push({ term, expected: 'a number', actual })
  const latest = new Date(now + LONGEST_PERMIT_MS)
  if (Number(message['deadline']) * 1000 > latest.getTime())
    differences.push({
      term: 'deadline',
      expected: `at most ${latest.toISOString()}`,
      actual: message['deadline'] ?? '',
    })
  if (differences.length > 0) throw new ChallengeRefused(differences)
}

function lower(value: unknown): string {
  return String(value).toLowerCase()
}

type PermitContext = Pick<FareboxContext, 'payer' | 'pins' | 'baseUrl' | 'now' | 'wallet'>

/** Signs the permit that lets Permit2 take `value`. Throws `ChallengeRefused` as `permitMessage` does. */
export async function signPermit(
  { payer, pins, baseUrl, now, wallet }: PermitContext,
  status: AllowanceStatus,
  value: bigint,
) {
  const terms = pins.termsOf(new URL(baseUrl).origin)
  const typedData = permitMessage(status, value, { terms, owner: payer, now: now() })
  const { nonce, deadline } = typedData.message as { nonce: bigint; deadline: bigint }
  const signature = await wallet.signTypedData(typedData)
  return { value: value.toString(), nonce: nonce.toString(), deadline: deadline.toString(), signature }
}

/** One that ends sooner is signed again: a long call must be settled before. */
const RENEWED_BEFORE_MS = 30 * 60_000

/** Returns whether a service submits a permit with a payment that is for later payments, too. */
export function takesLastingPermits({ required }: Pick<Challenge, 'required'>): boolean {
  const declared = required.extensions?.['eip2612GasSponsoring'] as { info?: { lasting?: unknown } } | undefined
  return declared?.info?.lasting === true
}

/**
 * Creates the lasting permit that the payments of one client bring until it is on chain; `onSigned` is called with what
 * Permit2 may take.
 */
export function createSharedPermit(
  context: PermitContext & { readonly budget: Pick<FareboxContext['budget'], 'underWay'> },
  onSigned: (value: bigint) => void,
) {
  const { budget, now } = context
  let shared: LastingPermit | null = null
  const present = (maximum: bigint): LastingPermit | null => {
    if (!shared || Number(shared.deadline) * 1000 - now() < RENEWED_BEFORE_MS) return null
    const value = BigInt(shared.amount)
    return value > maximum && value >= budget.underWay() ? shared : null
  }
  return {
    /** Returns it if a payment of `maximum` may bring it beside all that are under way. */
    present,
    /** It is on chain: payments bring it no longer. */
    drop: () => {
      shared = null
    },
    /**
     * Returns what a payment may bring now: the present one while its nonce is not used, or else one that is signed
     * now.
     */
    obtain: async (
      status: AllowanceStatus,
      { maximum, value }: { readonly maximum: bigint; readonly value: bigint },
    ): Promise<LastingPermit> => {
      const known = present(maximum)
      if (known?.nonce === status.permit_nonce) return known
      const { value: amount, ...signed } = await signPermit(context, status, value)
      shared = { from: context.payer, asset: status.asset, spender: PERMIT2_ADDRESS, amount, ...signed, version: '1' }
      onSigned(value)
      return shared
    },
  }
}
