import type { SettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { NonceQueue, QueuedTransaction } from '#shared/ledger/settlement/nonce-queue.ts'
import type { SignedTransaction } from '#shared/payment/facilitator.ts'
import type { SettlementAccount } from '#shared/payment/settlement-key.ts'
import type { Sweep } from '../../sweepers/sweeper.ts'
import type { SettlementWatchDependencies } from '../dependencies.ts'

export interface ReplacementDependencies extends SettlementWatchDependencies {
  /** Called after each replacement, for the metrics. */
  readonly onReplacement: (account: SettlementAccount) => void
  /** Called with the number of account nonces that were used outside this ledger since the last poll. */
  readonly onUsedElsewhere: (account: SettlementAccount, count: number) => void
}

/** Short, since the lease of a dead worker blocks the queue. A round rarely takes longer, and two at once are harmless. */
const LEASE_MS = 10_000
/** A younger head has only just been sent by its job. */
const RESEND_AFTER_MS = 1000
/** A round resends for at most this time: a slow node must not hold up other keys, or outlast what was read. */
const LONGEST_RESEND_MS = 3000
/** How many times longer a transaction that a receipt names is resent before it is replaced. */
const RELEASED_PATIENCE = 10

/**
 * Rebroadcasts the next transaction of each key, and those behind it that the node lost with it; replaces it with a
 * higher fee once it is stuck, and fills nonce gaps: a blocked nonce blocks every later settlement.
 */
export function replaceStuckTransactions(dependencies: ReplacementDependencies): Sweep {
  const { accounts, settlementStore, network } = dependencies
  return {
    name: 'advanced nonce queues',
    run: async () => {
      let moved = 0
      for (const facilitator of accounts.facilitators) {
        const account = { network, facilitator }
        if (!(await settlementStore.leaseNonceQueue(account, LEASE_MS))) continue
        try {
          moved += await advanceNonceQueue(dependencies, account)
        } finally {
          await settlementStore.releaseNonceQueue(account)
        }
      }
      return moved
    },
  }
}

/** Resends, replaces or fills the head of one queue. Returns how many transactions it changed. */
async function advanceNonceQueue(dependencies: ReplacementDependencies, account: SettlementAccount): Promise<number> {
  const { accounts, settlementStore, feeBumpAfterMs, onUsedElsewhere, logger } = dependencies
  const count = await accounts.countAccountNonces(account.facilitator)
  const queue = await settlementStore.readNonceQueue(account, count)
  if (queue.usedElsewhere > 0) {
    logger.error('SETTLEMENT_PRIVATE_KEYS: another sender uses a settlement key', {
      facilitator: account.facilitator,
      count: queue.usedElsewhere,
    })
    onUsedElsewhere(account, queue.usedElsewhere)
  }
  if (queue.nextAccountNonce === count) return 0
  if (queue.nextAccountNonce < count) {
    logger.error('a node reports more used account nonces than were signed', { facilitator: account.facilitator })
    return 0
  }
  const [head] = queue.transactions
  if (head?.accountNonce !== count || head.isAbandoned) return await fillNonceGap(dependencies, account, count, head)
  if (queue.headAgeMs < RESEND_AFTER_MS) return 0
  const patienceMs = feeBumpAfterMs * (await patienceFactor(accounts, queue.released.get(count)))
  if (queue.headAgeMs < patienceMs || head.ageMs < feeBumpAfterMs) {
    await resend(dependencies, account, queue)
    return 0
  }
  let replaced = 0
  for (const transaction of await findStuck(dependencies, queue, head))
    if (await replaceTransaction(dependencies, account, transaction)) replaced += 1
  return replaced
}

/**
 * Sends the head again. If the node had lost it, as when it was restarted or its pool was full, those behind it are lost
 * as well: they are sent in the same round, since each would otherwise wait for the block before its own.
 */
async function resend(
  { accounts, logger }: ReplacementDependencies,
  { facilitator }: SettlementAccount,
  { released, transactions }: NonceQueue,
): Promise<void> {
  const [head, ...behind] = transactions
  const overdue = behind.filter(({ isAbandoned, ageMs }) => !isAbandoned && ageMs >= RESEND_AFTER_MS)
  const until = performance.now() + LONGEST_RESEND_MS
  for (const transaction of head ? [head, ...overdue] : []) {
    const answer = await accounts.broadcast(released.get(transaction.accountNonce) ?? transaction)
    if (answer.outcome === 'unreachable') {
      logger.warn('no response to a broadcast', { facilitator, error: answer.cause })
      return
    }
    if (answer.outcome === 'pool_full') return
    if (transaction === head && (answer.outcome !== 'sent' || answer.wasKnown)) return
    if (performance.now() >= until) return
  }
}

/** Returns a longer patience for what a receipt names: it was mined once and will be again, unless base fees rose. */
async function patienceFactor(accounts: SettlementAccounts, released: SignedTransaction | undefined): Promise<number> {
  return released && !(await accounts.isUnderpriced(released.raw)) ? RELEASED_PATIENCE : 1
}

/**
 * Returns the head and every later transaction that offers less than the next base fee: it would get stuck as well. One that
 * must not be mined gets no higher fee: a filler takes its place once it is the head.
 */
async function findStuck(
  { accounts, feeBumpAfterMs }: ReplacementDependencies,
  { transactions }: NonceQueue,
  head: QueuedTransaction,
): Promise<readonly QueuedTransaction[]> {
  const stuck: QueuedTransaction[] = [head]
  for (const transaction of transactions) {
    if (transaction === head || transaction.isAbandoned || transaction.ageMs < feeBumpAfterMs) continue
    if (await accounts.isUnderpriced(transaction.raw)) stuck.push(transaction)
  }
  return stuck
}

/**
 * Replaces a transaction, or resends it when a higher fee is not allowed. Fees do not rise while the key cannot pay them:
 * no node would take the replacements, and the one that is mined after the key was funded would cost many times more.
 * Returns whether anything changed.
 */
async function replaceTransaction(
  { accounts, settlementStore, onReplacement, logger }: ReplacementDependencies,
  account: SettlementAccount,
  stuck: QueuedTransaction,
): Promise<boolean> {
  const { facilitator } = account
  const replacement = await accounts.replace(facilitator, stuck.raw)
  if (!replacement) {
    logger.warn('a settlement is stuck at the maximum fee', { facilitator })
    await accounts.broadcast(stuck)
    return false
  }
  if (!(await accounts.canPay(facilitator, replacement.raw))) {
    logger.warn('a settlement is stuck, and its key has too little gas for a higher fee', { facilitator })
    await accounts.broadcast(stuck)
    return false
  }
  await settlementStore.addReplacement(stuck.hash, replacement)
  onReplacement(account)
  const answer = await accounts.broadcast(replacement)
  if (answer.outcome === 'unreachable') logger.warn('no response to a broadcast', { facilitator, error: answer.cause })
  return true
}

/** Fills the next nonce when no transaction for it is wanted. Returns how many were filled. */
async function fillNonceGap(
  { accounts, settlementStore, logger }: ReplacementDependencies,
  account: SettlementAccount,
  accountNonce: bigint,
  head: QueuedTransaction | undefined,
): Promise<number> {
  const { facilitator } = account
  const abandoned = head?.accountNonce === accountNonce ? head.raw : null
  const filler = await accounts.fill(facilitator, accountNonce, abandoned)
  if (!(await settlementStore.fillGap(account, accountNonce, filler))) return 0
  logger.warn('filled a nonce gap', { facilitator })
  await accounts.broadcast(filler)
  return 1
}
