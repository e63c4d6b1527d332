import { ChallengeRefused, type Difference, type Terms } from '../payment/check-challenge.ts'
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
