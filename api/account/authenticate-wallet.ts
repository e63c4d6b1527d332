import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '#shared/errors/app-error.ts'
import type { AccountStore } from '#shared/ledger/account/account-store.ts'
import { isTagUnderAny } from '#shared/payment/challenge-secrets.ts'
import { readSignIn, type SignInReader, UNAUTHENTICATED } from './read-sign-in.ts'
import { issueSignInChallenge, type SignInSettings } from './sign-in-challenge.ts'

export interface WalletAuthentication extends SignInReader {
  readonly accountStore: Pick<AccountStore, 'useSignIn'>
}

/** A caller who has proven to be a wallet. */
export interface AuthenticatedWallet {
  /** In lower case. */
  readonly address: `0x${string}`
  /** For the next requests; `null` when the caller came with one. */
  readonly newSession: string | null
}

/**
 * Finds out which wallet calls a route: by `SIGN-IN-WITH-X`, which works once, or by the session that an earlier sign-in
 * started. A new sign-in takes precedence, so that a client that always sends its session recovers when it has expired.
 * Throws `sign_in_required` with a challenge for callers with neither.
 */
export async function authenticateWallet(
  authentication: WalletAuthentication,
  path: string,
  headers: IncomingHttpHeaders,
): Promise<AuthenticatedWallet> {
  const signIn = headers['sign-in-with-x']
  if (typeof signIn === 'string') return await signInOnce(authentication, path, signIn)
  const [, token] = /^Bearer (\S+)$/i.exec(headers.authorization ?? '') ?? []
  const address = token === undefined ? null : openSession(authentication, token)
  if (address === null) throw signInRequired(authentication, path, token !== undefined)
  return { address, newSession: null }
}

async function signInOnce(
  authentication: WalletAuthentication,
  path: string,
  header: string,
): Promise<AuthenticatedWallet> {
  const { address, nonce, expiresAt } = readSignIn(authentication, path, header)
  const isFirstUse = await authentication.accountStore.useSignIn(nonce, expiresAt)
  if (!isFirstUse) throw new AppError('sign_in_already_used', { headers: UNAUTHENTICATED })
  return { address, newSession: createSession(authentication, address) }
}

/**
 * Creates the 402 that the extension's clients answer by signing. It accepts no payment, which is how the protocol marks
 * a route that only asks who calls.
 */
function signInRequired(authentication: WalletAuthentication, path: string, hasOldSession: boolean): AppError {
  const required = {
    x402Version: 2,
    error: 'sign_in_required',
    resource: {
      url: new URL(path, authentication.publicBaseUrl).href,
      description: 'Your own account: free, by the signature of your wallet.',
      mimeType: 'application/json',
    },
    accepts: [],
    extensions: issueSignInChallenge(authentication, path),
  }
  const { message } = new AppError('sign_in_required')
  return new AppError('sign_in_required', {
    message: hasOldSession ? `The session has expired or is not one of this service. ${message}` : message,
    headers: { 'payment-required': Buffer.from(JSON.stringify(required)).toString('base64') },
  })
}

/** Long enough to read a hundred thousand receipts page by page, short enough for a token that leaks. */
const LIFETIME_MS = 10 * 60 * 1000

/**
 * Creates a token with which a wallet that has signed in reads its account for some minutes more. It is not stored: it
 * contains address and expiry, authenticated with HMAC-SHA-256 and bound to the origin, like the challenge that it
 * replaces.
 */
function createSession(settings: SignInSettings, address: string): string {
  const claims = `${address}.${settings.now().getTime() + LIFETIME_MS}`
  const [newest] = settings.challengeSecrets
  return `${claims}.${mac(settings, newest, claims)}`
}

/** Returns the wallet of a token, or `null` for one that is forged or has expired. */
function openSession(settings: SignInSettings, token: string): `0x${string}` | null {
  const [address = '', expiresAt = '', tag = '', ...others] = token.split('.')
  const tagUnder = (secret: string) => mac(settings, secret, `${address}.${expiresAt}`)
  if (others.length > 0 || !isTagUnderAny(tag, settings.challengeSecrets, tagUnder)) return null
  return Number(expiresAt) > settings.now().getTime() ? (address as `0x${string}`) : null
}

function mac({ publicBaseUrl }: SignInSettings, secret: string, claims: string): string {
  return createHmac('sha256', secret)
    .update('farebox account session\0')
    .update(JSON.stringify([new URL(publicBaseUrl).origin, claims]))
    .digest('base64url')
}
