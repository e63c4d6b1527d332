import { LRUCache } from 'lru-cache'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import { type Authorization, storedAuthorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier, SignedBy } from '#shared/payment/facilitator.ts'
import type { Challenge } from '../quote/challenge.ts'

/**
 * How long a refused payment is answered from memory. A payer who adds funds and repeats the same payment waits at most
 * this long; a newly signed one is verified immediately.
 */
const REFUSAL_MS = 10_000
/** How long a payer counts as known after a payment that verified. */
const KNOWN_MS = 3_600_000
/** Upper bounds of the two memories; the least recently used entries are dropped first. */
const MAXIMUM_REFUSALS = 20_000
const MAXIMUM_PAYERS = 100_000

/** Refusals that the state of the chain decides: asking again within seconds would cost the same RPC calls again. */
const CHAIN_REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'insufficient_funds',
  'permit2_allowance_required',
  'permit_already_used',
  'payer_has_code',
  'payer_not_deployed',
  'payment_nonce_used',
  'payment_rejected',
])

/**
 * Refusals after which a payer is no longer known. Others may be provoked by a stranger, who presents a payment of this
 * payer that is already settled and therefore public.
 */
const LACK_OF_MEANS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['insufficient_funds', 'permit2_allowance_required'])

/**
 * Refusals that any signature of the same payment would get. All others may be due to a signature that a stranger made up,
 * and say nothing about the wallet's own.
 */
const OF_EVERY_SIGNATURE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'insufficient_funds',
  'permit2_allowance_required',
  'payment_nonce_used',
])

/** Returns whether the refusal came from reading the chain, which its caller's allowance has paid for. */
export function isChainRefusal(code: ErrorCode, signedBy: SignedBy): boolean {
  // Of a key, or of nobody, the signature is judged without the chain.
  return CHAIN_REFUSALS.has(code) || (code === 'payment_signature_invalid' && signedBy === 'ask_chain')
}

/** Returns whether a payment is refused, so that the answer is the challenge to sign instead. */
export function isRefusedPayment(error: unknown): error is AppError {
  return error instanceof AppError && error.entry.kind === 'payment'
}

/** A payment that the chain recently refused, with the challenge that its refusal offered. */
export interface RecentRefusal {
  readonly error: AppError
  readonly challenge: Challenge
}

/**
 * What this process recently learned about payers from the chain. Bounded and never shared: it saves work, and decides
 * nothing about money.
 */
export interface PayerMemory {
  /** Returns whether a payment of this payer verified on chain within the last hour and no later one lacked funds. */
  isKnown(payer: `0x${string}`): boolean
  /**
   * Returns the refusal of exactly this payment, permit included, with the seconds after which it is forgotten. Of a wallet
   * whose signature only the chain can judge, and may be spelled in many ways, one that every signature would get is the
   * refusal of all.
   */
  findRefusal(authorization: Authorization): RecentRefusal | null
  /** Records a payment that verified, and forgets the payer's refusals: funds may have arrived since. */
  rememberVerified(payer: `0x${string}`): void
  /**
   * Remembers a refusal by the chain, and returns it with the time to wait before the same payment is verified again.
   * Returns other errors unchanged.
   */
  rememberRefusal(authorization: Authorization, error: AppError, challenge: Challenge): AppError
}

/** Creates an empty memory. `now` is monotonic, in milliseconds; by default every signature is a key's. */
export function createPayerMemory(
  now: () => number = () => performance.now(),
  signedBy: AuthorizationVerifier['isSignedByPayer'] = () => 'key',
): PayerMemory {
  const refusals = new LRUCache<string, RecentRefusal & { readonly at: number }>({ max: MAXIMUM_REFUSALS })
  const verifiedAt = new LRUCache<string, number>({ max: MAXIMUM_PAYERS })
  const keysOf = (authorization: Authorization): { readonly own: string; readonly ofAll: string } => {
    const own = digestOf(authorization)
    if (signedBy(authorization) === 'key') return { own, ofAll: own }
    return { own, ofAll: digestOf({ ...authorization, signature: '0x', gasSponsoring: null }) }
  }
  return {
    isKnown: (payer) => now() - (verifiedAt.get(payer) ?? Number.NEGATIVE_INFINITY) < KNOWN_MS,
    findRefusal: (authorization) => {
      const { own, ofAll } = keysOf(authorization)
      const refusal = refusals.get(own) ?? refusals.get(ofAll)
      const leftMs = refusal ? refusal.at + REFUSAL_MS - now() : 0
      if (!refusal || leftMs <= 0 || (verifiedAt.get(authorization.payer) ?? Number.NEGATIVE_INFINITY) > refusal.at)
        return null
      return { error: withDelay(repeatable(refusal.error), leftMs), challenge: refusal.challenge }
    },
    rememberVerified: (payer) => {
      verifiedAt.set(payer, now())
    },
    rememberRefusal: (authorization, error, challenge) => {
      const signer = signedBy(authorization)
      if (!isChainRefusal(error.code, signer)) return error
      // Whoever signs with another key, or none, does not speak for the payer.
      if (signer === 'key' && LACK_OF_MEANS.has(error.code)) verifiedAt.delete(authorization.payer)
      const { own, ofAll } = keysOf(authorization)
      refusals.set(OF_EVERY_SIGNATURE.has(error.code) ? ofAll : own, { error, challenge, at: now() })
      return withDelay(error, REFUSAL_MS)
    },
  }
}

/** A payment is looked up at each stage of its request. */
const digests = new WeakMap<Authorization, string>()

/** Returns a digest of everything that the chain would judge, including the unsigned parts. */
function digestOf(authorization: Authorization): string {
  const digest = digests.get(authorization) ?? sha256Hex(storedAuthorization(authorization))
  digests.set(authorization, digest)
  return digest
}

/** Returns the refusal without what it read from the chain: a permit nonce may have been used since. */
function repeatable(error: AppError): AppError {
  return 'permit' in error.members ? new AppError(error.code) : error
}

function withDelay({ code, message, members }: AppError, delayMs: number): AppError {
  return new AppError(code, { message, members, retryAfterSeconds: Math.ceil(delayMs / 1000) })
}
