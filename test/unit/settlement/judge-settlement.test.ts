import { describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { judgeSettlement } from '../../../workers/settlement/own-keys/judge-settlement.ts'
import type { TransactionStatus } from '../../../workers/settlement/own-keys/read-statuses.ts'

const DEADLINE = 1000n
const AT_DEADLINE = new Date(1_000_000)
const PAST_DEADLINE = new Date(1_001_000)

const GAS = { gasUsed: 1n, effectiveGasPrice: 1n, cost: atomicAmount(1n) }
const confirmed: Confirmation = {
  outcome: 'confirmed',
  blockNumber: 5n,
  blockHash: '0x05',
  blockTimestamp: new Date(0),
  gas: GAS,
}
const reverted: Confirmation = { outcome: 'reverted', blockNumber: 5n, blockHash: '0x05', gas: GAS }
const batchReverted: Confirmation = { outcome: 'batch_reverted', blockNumber: 5n, blockHash: '0x05', gas: GAS }
const pending: Confirmation = { outcome: 'pending' }
const unreachable: Confirmation = { outcome: 'unreachable', cause: null }

const KEY = '0x1111'
const OTHER_KEY = '0x2222'

function status(accountNonce: bigint, confirmation: Confirmation, sender: `0x${string}` = KEY): TransactionStatus {
  return { transaction: { hash: `0x${accountNonce}`, raw: '0x', sender, accountNonce }, confirmation }
}

/** Evidence with the next account nonce of each key. */
function evidence(
  accountNonceCounts: bigint | Readonly<Record<`0x${string}`, bigint>>,
  isNonceUsed: boolean,
  chainTime = AT_DEADLINE,
) {
  const counts = typeof accountNonceCounts === 'bigint' ? { [KEY]: accountNonceCounts } : accountNonceCounts
  return {
    outcome: 'read',
    blockNumber: 9n,
    blockHash: '0x09',
    accountNonceCounts: new Map(Object.entries(counts) as [`0x${string}`, bigint][]),
    isNonceUsed,
    chainTime,
  } as const
}

const judge = (statuses: readonly TransactionStatus[], read: Parameters<typeof judgeSettlement>[1] = null) =>
  judgeSettlement(statuses, read, DEADLINE).verdict

describe('judging without evidence', () => {
  it.each([
    ['one transaction is confirmed', [status(1n, confirmed)], 'settled'],
    ['one of several is confirmed and another reverted', [status(2n, reverted), status(1n, confirmed)], 'settled'],
    ['one is confirmed and another cannot be read', [status(2n, unreachable), status(1n, confirmed)], 'settled'],
    ['the only one is reverted', [status(1n, reverted)], 'uncollectable'],
    [
      'one is reverted and its replacements are not found',
      [status(1n, pending), status(1n, reverted)],
      'uncollectable',
    ],
    ['one is reverted and one of another nonce is not found', [status(2n, pending), status(1n, reverted)], 'open'],
    ['one is reverted and another cannot be read', [status(1n, unreachable), status(1n, reverted)], 'open'],
    ['all are reverted', [status(2n, reverted), status(1n, reverted)], 'uncollectable'],
    ['none is found', [status(2n, pending), status(1n, pending)], 'open'],
    [
      'one succeeded without the transfer',
      [status(1n, { outcome: 'transfer_missing', blockNumber: 5n })],
      'transfer_missing',
    ],
  ] as const)('judges a settlement without evidence when %s', (_, statuses, verdict) => {
    expect(judge(statuses)).toBe(verdict)
  })
})

describe('judging with the payer’s nonce unused at one block', () => {
  it.each([
    ['the account nonce is unused', [status(1n, pending)], evidence(1n, false), 'open'],
    ['the account nonce is used', [status(1n, pending)], evidence(2n, false), 'nonce_used_elsewhere'],
    ['one of two account nonces is unused', [status(2n, pending), status(1n, pending)], evidence(2n, false), 'open'],
    [
      'one is reverted and the other’s account nonce is used',
      [status(2n, pending), status(1n, reverted)],
      evidence(3n, false),
      'uncollectable',
    ],
    ['one cannot be read', [status(1n, unreachable)], evidence(2n, false), 'open'],
    ['the block is exactly at the deadline', [status(1n, pending)], evidence(1n, false, AT_DEADLINE), 'open'],
    ['the block is past the deadline', [status(1n, pending)], evidence(1n, false, PAST_DEADLINE), 'uncollectable'],
    [
      'the block is past the deadline, but one is confirmed',
      [status(1n, confirmed)],
      evidence(1n, false, PAST_DEADLINE),
      'settled',
    ],
  ] as const)('judges a settlement with the payer’s nonce unused when %s', (_, statuses, read, verdict) => {
    expect(judge(statuses, read)).toBe(verdict)
  })
})

describe('judging with the payer’s nonce used at one block', () => {
  it.each([
    [
      'our account nonce is unused, so the payer invalidated it',
      [status(1n, pending)],
      evidence(1n, true),
      'uncollectable',
    ],
    [
      'ours reverted, so the payer invalidated it',
      [status(2n, pending), status(1n, reverted)],
      evidence(2n, true),
      'uncollectable',
    ],
    ['ours is confirmed after all', [status(1n, confirmed)], evidence(2n, true), 'settled'],
    ['ours may have used it without a visible receipt', [status(1n, pending)], evidence(2n, true), 'unexplained'],
    ['the block is past the deadline too', [status(1n, pending)], evidence(2n, true, PAST_DEADLINE), 'unexplained'],
    ['one transaction cannot be read', [status(1n, unreachable)], evidence(1n, true), 'open'],
  ] as const)('judges a settlement with the payer’s nonce used when %s', (_, statuses, read, verdict) => {
    expect(judge(statuses, read)).toBe(verdict)
  })
})

describe('judging a batch that reverted as a whole', () => {
  it.each([
    ['there is no evidence', [status(1n, batchReverted)], null, 'open'],
    ['the payer’s nonce is unused', [status(1n, batchReverted)], evidence(2n, false), 'batch_reverted'],
    [
      'its replacements are not found',
      [status(1n, pending), status(1n, batchReverted)],
      evidence(2n, false),
      'batch_reverted',
    ],
    ['a later batch may still be mined', [status(2n, pending), status(1n, batchReverted)], evidence(2n, false), 'open'],
    [
      'a later batch reverted too',
      [status(2n, batchReverted), status(1n, batchReverted)],
      evidence(3n, false),
      'batch_reverted',
    ],
    ['the payment failed in a later batch', [status(2n, reverted), status(1n, batchReverted)], null, 'uncollectable'],
    ['a later batch settled it', [status(2n, confirmed), status(1n, batchReverted)], null, 'settled'],
    ['the payer invalidated the nonce', [status(1n, batchReverted)], evidence(2n, true), 'uncollectable'],
    ['the deadline passed', [status(1n, batchReverted)], evidence(2n, false, PAST_DEADLINE), 'uncollectable'],
    ['one cannot be read', [status(2n, unreachable), status(1n, batchReverted)], evidence(3n, false), 'open'],
  ] as const)('judges a payment of a batch that reverted as a whole when %s', (_, statuses, read, verdict) => {
    expect(judge(statuses, read)).toBe(verdict)
  })
})

describe('judging transactions of several keys', () => {
  const both = [status(4n, pending, OTHER_KEY), status(1n, pending)]
  it.each([
    ['both account nonces are used', both, evidence({ [KEY]: 2n, [OTHER_KEY]: 5n }, false), 'nonce_used_elsewhere'],
    ['one key may still send it', both, evidence({ [KEY]: 2n, [OTHER_KEY]: 4n }, false), 'open'],
    ['one key was not read', both, evidence({ [KEY]: 2n }, false), 'open'],
    ['the nonce is used, and one key was not read', both, evidence({ [KEY]: 1n }, true), 'unexplained'],
    ['the nonce is used, and neither was mined', both, evidence({ [KEY]: 1n, [OTHER_KEY]: 4n }, true), 'uncollectable'],
    [
      'that of one key reverted, and that of another with the same account nonce may still be mined',
      [status(1n, pending, OTHER_KEY), status(1n, batchReverted)],
      evidence({ [KEY]: 2n, [OTHER_KEY]: 1n }, false),
      'open',
    ],
    [
      'the payment failed in that of one key, and another with the same account nonce is not found',
      [status(1n, pending, OTHER_KEY), status(1n, reverted)],
      null,
      'open',
    ],
  ] as const)('judges a settlement with transactions of two keys when %s', (_, statuses, read, verdict) => {
    expect(judge(statuses, read)).toBe(verdict)
  })
})

const revertedIn = (blockNumber: bigint): Confirmation => ({
  ...reverted,
  blockNumber,
  blockHash: `0x0${blockNumber}`,
})
const judgedAt = (...judged: Parameters<typeof judge>) => {
  const [statuses, read = null] = judged
  const verdict = judgeSettlement(statuses, read, DEADLINE)
  return 'judgedAt' in verdict ? verdict.judgedAt : null
}

describe('the block that proves a verdict', () => {
  it('names the newest block of the reverts when all transactions reverted', () => {
    expect(judgedAt([status(2n, revertedIn(7n)), status(1n, revertedIn(6n))])).toEqual({ number: 7n, hash: '0x07' })
  })

  it.each([
    ['the payer invalidated the nonce', [status(1n, pending)], evidence(1n, true)],
    ['the deadline passed', [status(1n, pending)], evidence(1n, false, PAST_DEADLINE)],
    ['the account nonce was used elsewhere', [status(1n, pending)], evidence(2n, false)],
  ] as const)('names the block of the evidence when %s', (_, statuses, read) => {
    expect(judgedAt(statuses, read)).toEqual({ number: 9n, hash: '0x09' })
  })
})

it('judges a settlement by the newest block that it depends on: the evidence, or a later revert', () => {
  const laterRevert: Confirmation = { outcome: 'reverted', blockNumber: 10n, blockHash: '0x0a', gas: GAS }
  const statuses = [status(2n, laterRevert), status(1n, pending)]
  expect(judgeSettlement(statuses, evidence(3n, false), DEADLINE)).toMatchObject({
    verdict: 'uncollectable',
    judgedAt: { number: 10n, hash: '0x0a' },
  })
})
