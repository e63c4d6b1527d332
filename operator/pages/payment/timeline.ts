import type {
  AttemptRecord,
  MediaRecord,
  PaymentRecord,
  ResolutionRecord,
  SettlementRecord,
  TransactionRecord,
} from '#shared/operators/payment-record.ts'

export type Tone = 'good' | 'warning' | 'bad' | 'neutral'

/** One event of a call. */
export interface TimelineEvent {
  /** `null` for the challenge, whose time is not stored. */
  readonly moment: Date | null
  readonly title: string
  readonly detail: string | null
  readonly tone: Tone
  readonly amount: bigint | null
  readonly transaction: string | null
  /** Whether it lies in the future. */
  readonly isExpected: boolean
}

/** Returns what happened to a call and its money, oldest first, and what is still to come. */
export function timelineOf(payment: PaymentRecord, now: Date): readonly TimelineEvent[] {
  const events = [
    ...payment.authorizations.map(({ claimedAt, authorizedMaximum, hasPermit }, index) =>
      event(claimedAt, index === 0 ? 'Accepted with a payment' : 'Paid again under the same key', {
        detail: `authorized for at most this amount${hasPermit ? ', with a permit that the settlement submits' : ''}`,
        amount: authorizedMaximum,
      }),
    ),
    ...payment.attempts.flatMap(attemptEvents),
    ...payment.uncharged.map(({ createdAt, kind, amount }) =>
      event(createdAt, 'Work absorbed', { detail: spaced(kind), amount, tone: 'warning' }),
    ),
    ...payment.settlements.flatMap(settlementEvents),
    ...receiptEvents(payment),
    ...payment.unknownSettlements.map(({ foundAt, amount, transaction }) =>
      event(foundAt, 'Found settled on chain without a record', { amount, transaction, tone: 'bad' }),
    ),
    ...endEvents(payment),
    ...payment.media.flatMap((medium) => mediaEvents(medium, now)),
    ...uploadEvents(payment),
    ...payment.resolutions.map(resolutionEvent),
  ]
  return [challengeEvent(payment), ...events.toSorted((left, right) => timeOf(left) - timeOf(right))]
}

function timeOf({ moment }: TimelineEvent): number {
  return moment?.getTime() ?? 0
}

function event(moment: Date | null, title: string, more: Partial<TimelineEvent> = {}): TimelineEvent {
  return { moment, title, detail: null, tone: 'neutral', amount: null, transaction: null, isExpected: false, ...more }
}

function challengeEvent({ quotedMaximum, catalogVersion }: PaymentRecord): TimelineEvent {
  return event(null, 'Challenge (402)', {
    detail: `at most this amount, by catalog ${catalogVersion}`,
    amount: quotedMaximum,
  })
}

const ATTEMPT_ENDS = {
  open: ['', 'neutral'],
  succeeded: ['answered: result and charge sealed', 'good'],
  failed_definite: ['did not work, without billable work', 'warning'],
  failed_empty: ['worked and returned nothing usable', 'bad'],
  failed_ambiguous: ['ended with an unknown outcome', 'bad'],
} as const satisfies Record<AttemptRecord['state'], readonly [string, Tone]>

function attemptEvents({ deployment, state, reason, startedAt, finishedAt }: AttemptRecord): readonly TimelineEvent[] {
  const called = event(startedAt, `Called ${deployment}`)
  if (finishedAt === null) return [called]
  const [title, tone] = ATTEMPT_ENDS[state]
  return [called, event(finishedAt, `${deployment} ${title}`, { detail: reason, tone })]
}

const SETTLEMENT_ENDS = {
  signed: ['', 'neutral'],
  confirmed: ['Settlement confirmed', 'good'],
  reverted: ['Settlement reverted: nothing was charged by it', 'warning'],
  unproven: ['Settlement without proof: a person decides', 'bad'],
  lost: ['Settlement confirmed, and lost in a reorganization later', 'bad'],
  surplus: ['Settlement succeeded after all: charged a second time or for nothing', 'bad'],
} as const satisfies Record<SettlementRecord['state'], readonly [string, Tone]>

function settlementEvents(settlement: SettlementRecord): readonly TimelineEvent[] {
  const { state, transactions, finishedAt, finalizedAt, failureReason, transaction, blockNumber, charge } = settlement
  const signed = transactions.map((signing, index) =>
    event(signing.signedAt, signingOf(signing, transactions[index - 1]), {
      detail: signing.accountNonce === null ? null : `account nonce ${signing.accountNonce} of ${signing.sender}`,
      amount: index === 0 ? charge : null,
      transaction: signing.hash,
    }),
  )
  const requested =
    settlement.settledBy === 'remote_facilitator'
      ? [event(settlement.signedAt, 'Settlement requested from the remote facilitator', { amount: charge })]
      : []
  const [title, tone] = SETTLEMENT_ENDS[state]
  const block = blockNumber === null ? null : `block ${blockNumber}`
  const detail = [block, failureReason].filter((part) => part !== null).join(': ')
  return [
    ...requested,
    ...signed,
    ...(finishedAt === null || state === 'signed'
      ? []
      : [event(finishedAt, title, { detail: detail === '' ? null : detail, tone, transaction })]),
    ...(finalizedAt === null
      ? []
      : [
          event(finalizedAt, 'Its block is final', { detail: block, tone: state === 'confirmed' ? 'good' : 'neutral' }),
        ]),
  ]
}

/** With another account nonce it replaces nothing: the one before can no longer settle, or its batch was given up. */
function signingOf({ sender, accountNonce }: TransactionRecord, before: TransactionRecord | undefined): string {
  if (before === undefined) return 'Settlement transaction signed'
  const replaces = sender === before.sender && accountNonce === before.accountNonce
  return replaces ? 'Replaced by another transaction' : 'Signed again in another transaction'
}

/** A receipt is prepared just before the transaction that stores it together with the settlement's end. */
function receiptEvents({ receipt, settlements }: PaymentRecord): readonly TimelineEvent[] {
  if (!receipt) return []
  const stored = settlements.find(({ transaction }) => transaction === receipt.transaction)?.finishedAt
  const moment = stored && stored > receipt.issuedAt ? stored : receipt.issuedAt
  return [event(moment, 'Receipt issued', { detail: receipt.id, amount: receipt.charge, tone: 'good' })]
}

const ENDS = {
  completed: ['Result released to its caller', 'good'],
  failed: ['Failed: nothing is charged', 'warning'],
  settlement_failed: ['Result withheld: its charge could not be settled', 'bad'],
  review: ['Stopped for a person to decide', 'bad'],
} as const satisfies Record<string, readonly [string, Tone]>

function endEvents({ state, finishedAt, failureCode, failureReason, resultExpiredAt }: PaymentRecord) {
  const end = state in ENDS ? ENDS[state as keyof typeof ENDS] : null
  const detail = [failureCode, failureReason].filter((part) => part !== null).join(': ')
  return [
    ...(end === null || finishedAt === null
      ? []
      : [event(finishedAt, end[0], { tone: end[1], detail: detail === '' ? null : detail })]),
    ...(resultExpiredAt === null ? [] : [event(resultExpiredAt, 'Result deleted at the end of its retention')]),
  ]
}

function mediaEvents({ contentType, expiresAt, deletedAt }: MediaRecord, now: Date): readonly TimelineEvent[] {
  const expiry = event(expiresAt, `Hosted ${contentType} expires`, { isExpected: expiresAt > now })
  return deletedAt === null ? [expiry] : [event(deletedAt, `Hosted ${contentType} deleted`)]
}

function uploadEvents({ upload }: PaymentRecord): readonly TimelineEvent[] {
  if (!upload) return []
  return [
    ...(upload.erasedAt === null ? [] : [event(upload.erasedAt, 'Upload made unreadable: its key was erased')]),
    ...(upload.deletedAt === null ? [] : [event(upload.deletedAt, 'Upload deleted')]),
  ]
}

function resolutionEvent({ item, outcome, amount, operator, reason, resolvedAt, refundTransaction }: ResolutionRecord) {
  return event(resolvedAt, `${operator} ended the ${spaced(item)}: ${spaced(outcome)}`, {
    detail: reason,
    amount,
    transaction: refundTransaction,
    tone: 'good',
  })
}

function spaced(name: string): string {
  return name.replaceAll('_', ' ')
}
