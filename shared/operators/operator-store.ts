import type { JsonValue } from '#shared/digests/canonical-json.ts'
import type { AuditHead } from './audit-chain.ts'
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
  /** From one known browser, which no other limit counts and none stops until then. */
  readonly byDevice: number
}

/** A browser in which somebody has signed in to an account. */
export interface KnownDevice {
  readonly id: string
  /** When its cookie was signed. A change of the password since then makes it a stranger's. */
  readonly knownSince: Date
}

export interface SignInAttempt {
  readonly outcome: 'allowed'
  /** Counts as a failure until the sign-in succeeds, so that guesses that are sent together are counted. */
  readonly attempt: bigint
  /** The id of the known browser that it is counted for; `null` when it counts for address and account. */
  readonly device: string | null
  /** `null` for an account that does not exist or is disabled. */
  readonly account: (Operator & { readonly passwordHash: string }) | null
}

export interface OperatorSessions {
  beginSignIn(
    name: string,
    from: { readonly address: string; readonly device: KnownDevice | null },
    limits: SignInLimits,
  ): Promise<
    | SignInAttempt
    | {
        readonly outcome: 'throttled'
        readonly retryAfterSeconds: number
        /** `null` when there is no account of that name. */
        readonly account: string | null
      }
  >
  /**
   * Opens a session and forgets the failures of this known browser, or else of this account and address. Ends the session `replaces`. Returns `false`,
   * and opens none, when the account was disabled or its password changed since `passwordHash` was read.
   */
  openSession(session: {
    readonly operator: string
    readonly passwordHash: string
    readonly address: string
    readonly device: string | null
    readonly tokenSha256: string
    readonly lifetimeSeconds: number
    readonly replaces: string | null
  }): Promise<boolean>
  /** Returns who a session belongs to, and counts as its use; `null` when it has ended. */
  useSession(tokenSha256: string, idleSeconds: number): Promise<Operator | null>
  /** Returns the hash to check the current password against before it is changed. */
  readPasswordHash(name: string): Promise<string | null>
  endSession(tokenSha256: string): Promise<void>
  /** Returns what all processes of the console sign their cookies with. */
  readCookieSecret(): Promise<Buffer>
  /** Deletes what has expired. */
  sweepSessions(): Promise<void>
}

/** What an operator does. */
export interface NewAction {
  /** What was done, as `noun.verb`, such as `deployment.drain`. */
  readonly action: string
  /** What it was done to, such as the id of a job or the name of a deployment. */
  readonly subject: string
  /** `null` where no reason is asked for. */
  readonly reason: string | null
  /** Never a password, key or token. */
  readonly details?: { readonly [name: string]: JsonValue }
}

/** What an operator did. */
export interface OperatorAction extends Required<NewAction>, AuditHead {
  readonly id: bigint
  readonly doneAt: Date
  readonly operator: string
  readonly source: Author['source']
}

export interface ActionFilter {
  readonly operator?: string | undefined
  readonly subject?: string | undefined
  readonly action?: string | undefined
}

export interface OperatorActions {
  /** Records what changed nothing, such as a download. Every change records itself. */
  recordEvent(author: Author, event: NewAction): Promise<void>
  readAuditHead(): Promise<AuditHead>
  /** Returns at most `limit` actions, newest first, before the action `before`. */
  readActions(
    filter: ActionFilter,
    page: { readonly before: bigint | null; readonly limit: number },
  ): Promise<{ readonly actions: readonly OperatorAction[]; readonly next: bigint | null }>
}
