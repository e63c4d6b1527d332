import type { OperatorAccounts, OperatorActions, OperatorSessions } from '#shared/operators/operator-store.ts'
import type { Pool } from '../pool.ts'
import {
  addAccount,
  addFirstAccount,
  changePassword,
  changeRole,
  disableAccount,
  enableAccount,
  listAccounts,
} from './accounts.ts'
import { readActions } from './read-actions.ts'
import { readAuditHead } from './read-chain.ts'
import { recordAction } from './record-action.ts'
import { readCookieSecret, readPasswordHash, sweepSessions } from './sessions.ts'
import { beginSignIn, endSession, openSession } from './sign-in.ts'
import { useSession } from './use-session.ts'

/** Creates the store of operators, their sessions and what they did, over one pool. */
export function createOperatorStore(pool: Pool): OperatorAccounts & OperatorSessions & OperatorActions {
  return {
    listAccounts: () => listAccounts(pool),
    addAccount: (account, author) => addAccount(pool, account, author),
    addFirstAccount: (account, author) => addFirstAccount(pool, account, author),
    changeRole: (name, role, author) => changeRole(pool, name, role, author),
    changePassword: (name, hash, author) => changePassword(pool, name, hash, author),
    disableAccount: (name, author) => disableAccount(pool, name, author),
    enableAccount: (name, author) => enableAccount(pool, name, author),
    beginSignIn: (name, from, limits) => beginSignIn(pool, name, from, limits),
    openSession: (session) => openSession(pool, session),
    useSession: (token, idleSeconds) => useSession(pool, token, idleSeconds),
    readPasswordHash: (name) => readPasswordHash(pool, name),
    endSession: (token) => endSession(pool, token),
    readCookieSecret: () => readCookieSecret(pool),
    sweepSessions: () => sweepSessions(pool),
    recordEvent: (author, event) => recordAction(pool, author, event),
    readAuditHead: () => readAuditHead(pool),
    readActions: (filter, page) => readActions(pool, filter, page),
  }
}
