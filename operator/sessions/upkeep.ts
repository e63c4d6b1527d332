import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { hashPassword } from '#shared/operators/password.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import { elapses } from './repeat.ts'

const FIRST_ACCOUNT = 'operator'
const RETRY_MS = 1000
const SWEEP_MS = 3_600_000

interface UpkeepOptions {
  readonly store: Pick<OperatorStore, 'addFirstAccount' | 'listAccounts' | 'sweepSessions'>
  /** `undefined` creates no account. */
  readonly initialPassword: string | undefined
  readonly logger: Pick<Logger, 'info' | 'warn'>
}

/** Creates the first account, as soon as the database answers, and deletes expired sessions once an hour. */
export function startUpkeep({ store, initialPassword, logger }: UpkeepOptions) {
  const stopping = new AbortController()
  const addFirst = async () => {
    if (initialPassword === undefined || (await store.listAccounts()).length > 0) return
    const account = { name: FIRST_ACCOUNT, role: 'act', passwordHash: await hashPassword(initialPassword) } as const
    const added = await store.addFirstAccount(account, { operator: 'OPERATOR_INITIAL_PASSWORD', source: 'command' })
    if (added === 'added') logger.info('created the first account', { operator: FIRST_ACCOUNT })
  }
  const ready = untilDone(addFirst, stopping.signal, (error) => {
    logger.warn('the first account could not be created yet', { error })
  })
  const keepSwept = async () => {
    await ready
    do
      await store.sweepSessions().catch((error: unknown) => logger.warn('expired sessions were not deleted', { error }))
    while (await elapses(SWEEP_MS, stopping.signal))
  }
  const upkeep = keepSwept()
  return {
    /** Resolves when there is an account, or when none is to be created. */
    ready,
    stop: async () => {
      stopping.abort()
      await upkeep
    },
  }
}

/** Repeats `work` until it succeeds. The first failure is reported. */
async function untilDone(work: () => Promise<void>, signal: AbortSignal, onFailure: (error: unknown) => void) {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work()
    } catch (error) {
      if (isFirst) onFailure(error)
      if (!(await elapses(RETRY_MS, signal))) return
    }
  }
}
