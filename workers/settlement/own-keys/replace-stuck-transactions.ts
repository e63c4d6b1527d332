import type {
  NonceQueue,
  QueuedTransaction,
  SettlementAccount,
  SettlementStore,
} from '#shared/jobs/settlement-store.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccounts } from '#shared/payment/settlement-accounts.ts'
import type { Logger } from '#shared/runtime/logger.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'

export interface KeeperDependencies {
  readonly settlements: Pick<
    SettlementStore,
    'leaseNonceQueue' | 'readNonceQueue' | 'addReplacement' | 'fillGap' | 'releaseNonceQueue'
  >
  readonly accounts: SettlementAccounts
  readonly network: string
  readonly feeBumpAfterMs: number
  /** Counts what was done, for the metrics. */
  readonly onReplacement: (account: SettlementAccount) => void
  /** Told how many account nonces somebody else used since the last look. */
  readonly onUsedElsewhere: (account: SettlementAccount, count: number) => void
  readonly logger: Logger
}

/** A round takes longer only with an RPC at its limit; a second keeper meanwhile would do no harm, a dead one's lease does. */
const LEASE_MS = 10_000
/** A head that is younger was sent by its own job a moment ago. */
const RESEND_AFTER_MS = 1000
/** How many times longer than another one a transaction is sent again, before it is replaced, when its result was released. */
const RELEASED_PATIENCE = 10

/**
 * Keeps each key's line of account nonces moving, whatever has become of the jobs in it: what is next is sent again, after a
 * while with a higher fee, and a nonce that nothing was signed for is filled. Everything behind it waits for it.
 */
export function replaceStuckTransactions(dependencies: KeeperDependencies): Sweep {
  const { accounts, settlements, network } = dependencies
  return {
    name: 'moved account nonces',
    run: async () => {
      let moved = 0
      for (const facilitator of accounts.facilitators) {
        const account = { network, facilitator }
        if (!(await settlements.leaseNonceQueue(account, LEASE_MS))) continue
        try {
          moved += await keepLine(dependencies, account)
        } finally {
          await settlements.releaseNonceQueue(account)
        }
      }
      return moved
    },
  }
}

async function keepLine(dependencies: KeeperDependencies, account: SettlementAccount): Promise<number> {
  const { accounts, settlements, feeBumpAfterMs, onUsedElsewhere, logger } = dependencies
  const count = await accounts.countAccountNonces(account.facilitator)
  const line = await settlements.readNonceQueue(account, count)
  if (line.usedElsewhere > 0) {
    logger.error('SETTLEMENT_PRIVATE_KEYS: somebody else sends transactions with a settlement key', {
      facilitator: account.facilitator,
      count: line.usedElsewhere,
    })
    onUsedElsewhere(account, line.usedElsewhere)
  }
  if (line.nextAccountNonce === count) return 0
  if (line.nextAccountNonce < count) {
    logger.error('a node tells of more account nonces than can have been used', { facilitator: account.facilitator })
    return 0
  }
  const [head] = line.transactions
  if (head?.accountNonce !== count || head.isGivenUp) return await fillHead(dependencies, account, count, head)
  if (line.headAgeMs < RESEND_AFTER_MS) return 0
  const patienceMs = feeBumpAfterMs * (await patienceFor(accounts, line.released))
  if (line.headAgeMs < patienceMs || head.ageMs < feeBumpAfterMs) {
    const answer = await accounts.broadcast(line.released ?? head)
    if (answer.outcome === 'unreachable')
      logger.warn('broadcast not answered', { facilitator: account.facilitator, error: answer.cause })
    return 0
  }
  let replaced = 0
  for (const transaction of await findStuck(dependencies, line, head))
    if (await replace(dependencies, account, transaction)) replaced += 1
  return replaced
}

/** What a receipt names was mined once and will be again, unless the base fee has risen above it. */
async function patienceFor(accounts: SettlementAccounts, released: SignedTransaction | null): Promise<number> {
  return released && !(await accounts.isUnderpriced(released.raw)) ? RELEASED_PATIENCE : 1
}

/** With the head, everything behind it that offers less than the next block burns: it would get stuck at the head as well. */
async function findStuck(
  { accounts, feeBumpAfterMs }: KeeperDependencies,
  { transactions }: NonceQueue,
  head: QueuedTransaction,
): Promise<readonly QueuedTransaction[]> {
  const stuck: QueuedTransaction[] = [head]
  for (const transaction of transactions)
    if (transaction !== head && transaction.ageMs >= feeBumpAfterMs && (await accounts.isUnderpriced(transaction.raw)))
      stuck.push(transaction)
  return stuck
}

/** Sends a replacement, or what is stored once more when a higher fee is not allowed. */
async function replace(
  { accounts, settlements, onReplacement, logger }: KeeperDependencies,
  account: SettlementAccount,
  stuck: QueuedTransaction,
): Promise<boolean> {
  const { facilitator } = account
  const replacement = await accounts.replace(facilitator, stuck.raw)
  if (!replacement) {
    logger.warn('a settlement is stuck at the highest fee allowed', { facilitator })
    await accounts.broadcast(stuck)
    return false
  }
  await settlements.addReplacement(stuck.hash, replacement)
  onReplacement(account)
  const answer = await accounts.broadcast(replacement)
  if (answer.outcome === 'unreachable') logger.warn('broadcast not answered', { facilitator, error: answer.cause })
  return true
}

async function fillHead(
  { accounts, settlements, logger }: KeeperDependencies,
  account: SettlementAccount,
  accountNonce: bigint,
  head: QueuedTransaction | undefined,
): Promise<number> {
  const { facilitator } = account
  const givenUp = head?.accountNonce === accountNonce ? head.raw : null
  const filler = await accounts.fill(facilitator, accountNonce, givenUp)
  if (!(await settlements.fillGap(account, accountNonce, filler))) return 0
  logger.warn('an account nonce without a transaction that is still wanted was filled', { facilitator })
  await accounts.broadcast(filler)
  return 1
}
