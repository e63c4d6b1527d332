import { formatUsdc } from '../budget/usdc.ts'
import { CLOCK_TOLERANCE_MS, clockDifference } from '../wire/clock-difference.ts'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
import type { Challenge } from './challenge.ts'

/** The terms of a service that never change. Addresses are in lower case. */
export interface Terms {
  readonly network: string
  readonly asset: string
  readonly payTo: string
}

/** What a challenge must agree with. */
export interface ExpectedChallenge {
  /** What was configured or stored at the first use of the service; a missing term is not checked. */
  readonly terms: Partial<Terms>
  /** The URL that is paid for. */
  readonly url: string
  /** The maximum that was quoted before. */
  readonly quotedMaximum?: bigint | undefined
  readonly now: number
  /** Of the answer, whose date shows whether this machine's clock is wrong. */
  readonly headers?: Headers | undefined
}

/** A term that is not what it must be. */
export interface Difference {
  readonly term: string
  readonly expected: string
  readonly actual: string
}

/** Nothing was signed, because the server asked for other terms than expected. */
export class ChallengeRefused extends FareboxError {
  override readonly name = 'ChallengeRefused'
  readonly differences: readonly Difference[]

  constructor(differences: readonly Difference[]) {
    const listed = differences.map(({ term, expected, actual }) => `${term} is ${actual} instead of ${expected}`)
    super({
      code: 'challenge_refused',
      problem: `The server asks for a payment on other terms: ${listed.join('; ')}.`,
      money: 'none',
      advice: `Nothing was signed. ${adviceFor(differences)}`,
    })
    this.differences = differences
  }
}

const PINNED: ReadonlySet<string> = new Set(['network', 'asset', 'payTo'])

function adviceFor(differences: readonly Difference[]): string {
  const terms = differences.map(({ term }) => term)
  if (terms.some((term) => PINNED.has(term)))
    return 'Ask the operator; if the change is intended, remove the service from pins.json.'
  if (terms.every((term) => term === 'maximum'))
    return 'Ask for the price again, and repeat the call if it may cost as much.'
  return 'Check the URL of the service, and ask its operator.'
}

const ADDRESS = /^0x[0-9a-f]{40}$/
/** Longer signatures would leave the maximum authorized for long after a call. */
export const LONGEST_TIMEOUT_SECONDS = 3600

/** Throws `ChallengeRefused` with everything that differs from what is expected. */
export function checkChallenge(challenge: Challenge, expected: ExpectedChallenge): void {
  const differences = [...differentTerms(challenge, expected), ...differentAmount(challenge, expected)]
  if (differences.length > 0) throw new ChallengeRefused(differences)
  if (challenge.expiresAt !== null && challenge.expiresAt + CLOCK_TOLERANCE_MS < expected.now)
    throw expired(challenge.expiresAt, expected)
}

function expired(expiresAt: number, { headers = new Headers(), now }: ExpectedChallenge): FareboxError {
  const difference = clockDifference(headers, now)
  const time = new Date(expiresAt).toISOString()
  return uncharged(
    'challenge_expired_locally',
    `By this machine’s clock the payment request expired at ${time}.${difference === null ? '' : ` ${difference}`}`,
    difference === null && headers.has('date')
      ? 'Nothing was signed. Repeat the call; the server’s clock agrees, so ask its operator if it happens again.'
      : 'Check this machine’s clock, then repeat the call.',
  )
}

function differentTerms(challenge: Challenge, { terms, url }: ExpectedChallenge): readonly Difference[] {
  const { scheme, network, asset, payTo, facilitator, resourceUrl, maxTimeoutSeconds } = challenge
  const pinned = (['network', 'asset', 'payTo'] as const).flatMap((term) =>
    terms[term] === undefined ? [] : differ(term, terms[term], challenge[term]),
  )
  return [
    ...differ('scheme', 'upto', scheme),
    ...pinned,
    ...(/^eip155:\d+$/.test(network) ? [] : [{ term: 'network', expected: 'an EVM chain', actual: network }]),
    ...[asset, payTo, facilitator ?? 'missing'].flatMap((address, index) =>
      ADDRESS.test(address)
        ? []
        : [{ term: ['asset', 'payTo', 'facilitator'][index] ?? '', expected: 'an address', actual: address }],
    ),
    ...(resourceUrl === null ? [] : differ('resource', pathOf(url), pathOf(resourceUrl))),
    ...(maxTimeoutSeconds <= LONGEST_TIMEOUT_SECONDS
      ? []
      : [{ term: 'timeout', expected: `at most ${LONGEST_TIMEOUT_SECONDS} s`, actual: `${maxTimeoutSeconds} s` }]),
  ]
}

function differentAmount({ maximum }: Challenge, { quotedMaximum }: ExpectedChallenge): readonly Difference[] {
  if (quotedMaximum === undefined || maximum <= quotedMaximum) return []
  return [{ term: 'maximum', expected: `${formatUsdc(quotedMaximum)} USDC`, actual: `${formatUsdc(maximum)} USDC` }]
}

function differ(term: string, expected: string, actual: string): readonly Difference[] {
  return expected === actual ? [] : [{ term, expected, actual }]
}

/** The origin may be another name of the same service, behind a proxy for example. */
function pathOf(url: string): string {
  try {
    return new URL(url).pathname
  } catch {
    return url
  }
}
