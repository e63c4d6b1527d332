import { createHmac, randomBytes } from 'node:crypto'
import { buildSIWxSchema, type CompleteSIWxInfo, SIGN_IN_WITH_X } from '@x402/extensions/sign-in-with-x'
import { type ChallengeSecrets, isTagUnderAny } from '#shared/payment/challenge-secrets.ts'

/** How long a challenge can be answered; the extension's own servers take no older message either. */
const LIFETIME_MS = 5 * 60 * 1000
/** API processes accept each other's challenges although their clocks differ a little. */
const CLOCK_TOLERANCE_MS = 30_000

/** Shown to the person or policy that signs. */
const STATEMENT =
  'Read the receipts, spend, debts and open calls of this wallet. Signing costs nothing and sends no transaction.'

/** Half of the nonce is random, half authenticates it; 32 hexadecimal digits together, as the extension specifies. */
const HALF_NONCE_BYTES = 8

export interface SignInSettings {
  /** Authenticates challenges, so that none has to be stored before it is answered. */
  readonly challengeSecrets: ChallengeSecrets
  readonly publicBaseUrl: string
  readonly network: string
  readonly now: () => Date
}

/** The message that is to be signed, except for the address: `SIGN-IN-WITH-X` repeats all of it. */
export type SignInMessage = Required<
  Pick<
    CompleteSIWxInfo,
    | 'domain'
    | 'uri'
    | 'statement'
    | 'version'
    | 'nonce'
    | 'issuedAt'
    | 'expirationTime'
    | 'resources'
    | 'chainId'
    | 'type'
  >
>

/** Returns the challenge of a route as the `sign-in-with-x` extension of a 402. */
export function issueSignInChallenge(settings: SignInSettings, path: string): Record<string, unknown> {
  const random = randomBytes(HALF_NONCE_BYTES).toString('hex')
  const issuedAt = settings.now().toISOString()
  const [newest] = settings.challengeSecrets
  const nonce = `${random}${nonceTag(settings, newest, path, random, issuedAt)}`
  const { chainId, type, ...info } = messageOf(settings, path, nonce, issuedAt)
  return { [SIGN_IN_WITH_X]: { info, supportedChains: [{ chainId, type }], schema: buildSIWxSchema() } }
}

export type OpenedSignIn =
  | { outcome: 'genuine'; message: SignInMessage; expiresAt: Date }
  | { outcome: 'foreign' }
  | { outcome: 'expired' }
  | { outcome: 'not_yet_valid' }

/**
 * Finds the challenge that this service issued for a route with this nonce at this time. Domain, URI, chain and all other
 * fields of its message follow from the route, so an answer cannot come from another origin, route or chain.
 */
export function openSignInChallenge(
  settings: SignInSettings,
  path: string,
  { nonce, issuedAt }: { readonly nonce: string; readonly issuedAt: string },
): OpenedSignIn {
  const [random, tag] = [nonce.slice(0, HALF_NONCE_BYTES * 2), nonce.slice(HALF_NONCE_BYTES * 2)]
  const tagUnder = (secret: string) => nonceTag(settings, secret, path, random, issuedAt)
  if (!isTagUnderAny(tag, settings.challengeSecrets, tagUnder)) return { outcome: 'foreign' }
  const issuedMs = Date.parse(issuedAt)
  const ageMs = settings.now().getTime() - issuedMs
  if (ageMs >= LIFETIME_MS) return { outcome: 'expired' }
  if (ageMs < -CLOCK_TOLERANCE_MS) return { outcome: 'not_yet_valid' }
  return {
    outcome: 'genuine',
    message: messageOf(settings, path, nonce, issuedAt),
    expiresAt: new Date(issuedMs + LIFETIME_MS),
  }
}

function messageOf(
  { publicBaseUrl, network }: SignInSettings,
  path: string,
  nonce: string,
  issuedAt: string,
): SignInMessage {
  const { host, href } = new URL(path, publicBaseUrl)
  return {
    domain: host,
    uri: href,
    statement: STATEMENT,
    version: '1',
    nonce,
    issuedAt,
    expirationTime: new Date(Date.parse(issuedAt) + LIFETIME_MS).toISOString(),
    resources: [href],
    chainId: network,
    type: 'eip191',
  }
}

function nonceTag(
  { publicBaseUrl }: SignInSettings,
  secret: string,
  path: string,
  random: string,
  issuedAt: string,
): string {
  return createHmac('sha256', secret)
    .update('farebox sign-in\0')
    .update(JSON.stringify([new URL(path, publicBaseUrl).href, random, issuedAt]))
    .digest('hex')
    .slice(0, HALF_NONCE_BYTES * 2)
}
