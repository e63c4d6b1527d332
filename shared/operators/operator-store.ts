import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { Author } from './author.ts'
import type { Operator, Role } from './operator-account.ts'

export interface OperatorAccount extends Operator {
  readonly createdAt: Date
  readonly passwordChangedAt: Date
  /** `null` while the account may sign in. */
  readonly disabledAt: Date | null
  /** `null` without an open session. */
  readonly lastUsedAt: Date | null
}

/** `last_actor`: no account that may act would be left. */
export type AccountChange = 'changed' | 'unknown' | 'last_actor'

/** The accounts of the console. Every change is recorded with its author; none is ever deleted. */
export interface OperatorAccounts {
  listAccounts(): Promise<readonly OperatorAccount[]>
  addAccount(account: Operator & { readonly passwordHash: string }, author: Author): Promise<'added' | 'exists'>
  /** Adds an account unless there is one of any name. */
  addFirstAccount(account: Operator & { readonly passwordHash: string }, author: Author): Promise<'added' | 'exists'>
  changeRole(name: string, role: Role, author: Author): Promise<AccountChange>
  /** Ends the account's sessions. */
  changePassword(name: string, passwordHash: string, author: Author): Promise<AccountChange>
  /** Ends the account's sessions. */
  disableAccount(name: string, author: Author): Promise<AccountChange>
  enableAccount(name: string, author: Author): Promise<AccountChange>
}

/** How often wrong passwords may be tried before an address has to wait. */
export interface SignInLimits {
  readonly windowSeconds: number
  /** For one account from one address. */
  readonly byAccountAndAddress: number
  /** From one address, whatever the account. */
  readonly byAddress: number
  /** For one account from all addresses from which nobody has signed in to it within 30 days. */
  readonly byAccount: number
}

export interface SignInAttempt {
  readonly outcome: 'allowed'
  /** Counts as a failure until the sign-in succeeds, so that guesses that are sent together are counted. */
  readonly attempt: bigint
  /** `null` for an account that does not exist or is disabled. */
  readonly account: (Operator & { readonly passwordHash: string }) | null
}

export interface OperatorSessions {
  beginSignIn(
    name: string,
    address: string,
    limits: SignInLimits,
  ): Promise<SignInAttempt | { readonly outcome: 'throttled'; readonly retryAfterSeconds: number }>
  /**
   * Opens a session and forgets the failures of this account and address. Ends the session `replaces`. Returns `false`,
   * and opens none, when the account was disabled or its password changed since `passwordHash` was read.
   */
  openSession(session: {
    readonly operator: string
    readonly passwordHash: string
    readonly address: string
    readonly tokenSha256: string
    readonly lifetimeSeconds: number
    readonly replaces: string | null
  }): Promise<boolean>
  /** Returns who a session belongs to, and counts as its use; `null` when it has ended. */
  useSession(tokenSha256: string, idleSeconds: number): Promise<Operator | null>
  /** Returns the hash to check the current password against before it is changed. */
  readPasswordHash(name: string): Promise<string | null>
  endSession(tokenSha256: string): Promise<void>
  /** Deletes what has expired. */
  sweepSessions(): Promise<void>
}

/** What an operator did. */
export interface OperatorAction {
  readonly id: bigint
  readonly doneAt: Date
  readonly operator: string
  readonly source: Author['source']
  readonly action: string
  readonly subject: string
  readonly reason: string | null
  readonly details: { readonly [name: string]: JsonValue }
}

export interface ActionFilter {
  readonly operator?: string | undefined
  readonly subject?: string | undefined
  readonly action?: string | undefined
}

export interface OperatorActions {
  /** Returns at most `limit` actions, newest first, before the action `before`. */
  readActions(
    filter: ActionFilter,
    page: { readonly before: bigint | null; readonly limit: number },
  ): Promise<{ readonly actions: readonly OperatorAction[]; readonly next: bigint | null }>
}
