import type { FastifyInstance } from 'fastify'
import type { PrivateKeyAccount } from 'viem/accounts'
import { recoverMessageSigner } from '#shared/chain/signing/personal-message.ts'
import { createAccountStore } from '#shared/ledger/account/account-store.ts'
import type { Pool } from '#shared/ledger/pool.ts'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { createAccountSlots } from '../../../api/account/account-slots.ts'
import type { SignInReader } from '../../../api/account/read-sign-in.ts'
import type { RateLimiter } from '../../../api/plugins/rate-limits.ts'
import { addAccountRoutes } from '../../../api/routes/account.ts'
import { signInChallengeOf, signInHeader } from '../../support/payer/sign-in.ts'
import { composeApp, limitRate, PUBLIC_BASE_URL, signer, terms } from './compose-app.ts'

export const RECEIPT_SECRETS = [
  { id: 'new', secret: 'the newer secret of receipts, 32 characters' },
  { id: 'old', secret: 'the older secret of receipts, 32 characters' },
]

export const ACCOUNT_PATHS = ['/v1/account/receipts', '/v1/account/spend', '/v1/account/debts', '/v1/account/open']

const SIGN_IN: SignInReader = {
  challengeSecrets: ['a secret of challenges with 32 characters'],
  publicBaseUrl: PUBLIC_BASE_URL,
  network: terms.network,
  recoverMessageSigner,
  now: () => new Date(),
}

/** The account routes of one API process over a database. */
export interface AccountApp {
  readonly app: FastifyInstance
  /** Sends a request; `path` may have a query. */
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Sends a request, signs the challenge that it is answered with, and sends it again. */
  getSignedIn(path: string, account: PrivateKeyAccount, headers?: Record<string, string>): Promise<Response>
  /** Returns the header with which the wallet starts a session. */
  signIn(account: PrivateKeyAccount): Promise<{ authorization: string }>
}

export async function composeAccountApp(
  pool: Pool,
  changes: { signIn?: Partial<SignInReader>; limitRate?: RateLimiter; spendTimeoutMs?: number } = {},
): Promise<AccountApp> {
  const { spendTimeoutMs } = changes
  const accountStore = createAccountStore(pool, spendTimeoutMs === undefined ? {} : { spendTimeoutMs })
  const app = await composeApp((composed) =>
    addAccountRoutes(composed, {
      account: { ...SIGN_IN, ...changes.signIn, accountStore, slots: createAccountSlots() },
      receiptSecrets: RECEIPT_SECRETS,
      signer,
      limitRate: changes.limitRate ?? limitRate,
      isDependencyFailure: isConnectionFailure,
    }),
  )
  const get: AccountApp['get'] = async (url, headers = {}) => {
    const answer = await app.inject({ url, headers })
    const received = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as [string, string])
    return new Response(answer.rawPayload, { status: answer.statusCode, headers: received })
  }
  const getSignedIn: AccountApp['getSignedIn'] = async (path, account, headers) => {
    const challenge = signInChallengeOf(await get(path))
    return get(path, { ...headers, 'sign-in-with-x': await signInHeader(challenge, account) })
  }
  return {
    app,
    get,
    getSignedIn,
    signIn: async (account) => {
      const answer = await getSignedIn('/v1/account/open', account)
      return { authorization: `Bearer ${answer.headers.get('x-account-session')}` }
    },
  }
}
