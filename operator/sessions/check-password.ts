import type { FastifyRequest } from 'fastify'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import type { SignInAttempt, SignInLimits } from '#shared/ledger/operators/sign-in.ts'
import type { Author } from '#shared/operators/author.ts'
import { isPassword } from '#shared/operators/password.ts'
import { clientGroup } from '#shared/runtime/client-address.ts'
import { findDevice } from './known-device.ts'
import './request.ts'

const LIMITS: SignInLimits = { windowSeconds: 900, byAccountAndAddress: 5, byAddress: 20, byAccount: 50, byDevice: 10 }

/** What a password that was entered for an account turned out to be. */
type CheckedPassword =
  | {
      readonly outcome: 'right'
      readonly account: NonNullable<SignInAttempt['account']>
      readonly device: string | null
    }
  /** `account` is `null` for a name that has none. */
  | { readonly outcome: 'wrong'; readonly account: string | null }
  | { readonly outcome: 'throttled'; readonly account: string | null; readonly retryAfterSeconds: number }

/**
 * Checks a password, which counts as wrong until `forgetFailures` or the opened session says otherwise. Those who sign in and
 * those who are asked again are counted together: a session that was taken over guesses no faster than a stranger.
 */
export async function checkPassword(
  sessions: Pick<OperatorStore, 'beginSignIn'>,
  request: FastifyRequest,
  name: string,
  password: string,
): Promise<CheckedPassword> {
  const device = await findDevice(request, name, request.server.consoleNow())
  const begun = await sessions.beginSignIn(name, { address: clientGroup(request.ip), device }, LIMITS)
  if (begun.outcome === 'throttled') return begun
  const { account, device: counted } = begun
  const isRight = await isPassword(password, account?.passwordHash ?? null)
  return account && isRight
    ? { outcome: 'right', account, device: counted }
    : { outcome: 'wrong', account: account?.name ?? null }
}

/**
 * Asks an operator who is signed in for their password again. Returns what is wrong with it, which is audited, and `null` when
 * it is right.
 */
export async function whyNotTheirs(
  sessions: Pick<OperatorStore, 'beginSignIn' | 'forgetFailures'>,
  request: FastifyRequest,
  author: Author,
  password: string,
): Promise<'wrong' | { readonly throttled: string } | null> {
  const { operator } = author
  const { sessionEvents } = request.server
  const checked = await checkPassword(sessions, request, operator, password)
  if (checked.outcome === 'throttled') {
    await sessionEvents.signIn('throttled', operator, request.ip, author)
    return { throttled: throttledSentence(checked.retryAfterSeconds) }
  }
  if (checked.outcome === 'wrong') {
    await sessionEvents.signIn('refused', operator, request.ip, author)
    return 'wrong'
  }
  await sessions.forgetFailures({ operator, address: clientGroup(request.ip), device: checked.device })
  return null
}

export function throttledSentence(retryAfterSeconds: number): string {
  const minutes = Math.ceil(retryAfterSeconds / 60)
  return `Too many wrong passwords. Try again in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}.`
}
