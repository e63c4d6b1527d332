import { describe, expect, it } from 'vitest'
import type { Confirmation } from '#shared/payment/facilitator.ts'
import { judgeSettlement, type TransactionStatus } from '../../../workers/settlement/own-keys/judge-settlement.ts'

const DEADLINE = 1000n
const AT_DEADLINE = new Date(1_000_000)
const PAST_DEADLINE = new Date(1_001_000)

const confirmed: Confirmation = {
  outcome: 'confirmed',
  blockNumber: 5n,
  blockHash: '0x05',
  blockTimestamp: new Date(0),
}
const reverted: Confirmation = { outcome: 'reverted', blockNumber: 5n }
const pending: Confirmation = { outcome: 'pending' }
const unreachable: Confirmation = { outcome: 'unreachable', cause: null }

function look(accountNonce: bigint, confirmation: Confirmation): TransactionStatus {
  return { transaction: { hash: `0x${accountNonce}`, raw: '0x', accountNonce }, confirmation }
}

function evidence(accountNonceCount: bigint, isNonceUsed: boolean, chainTime = AT_DEADLINE) {
  return { outcome: 'read', accountNonceCount, isNonceUsed, chainTime } as const
}

const judge = (looks: readonly TransactionStatus[], seen: Parameters<typeof judgeSettlement>[1] = null) =>
  judgeSettlement(looks, seen, DEADLINE).verdict

describe('without evidence, only receipts count', () => {
  it.each([
    ['one is confirmed', [look(1n, confirmed)], 'collected'],
    ['one of several is confirmed, whatever the others are', [look(2n, reverted), look(1n, confirmed)], 'collected'],
    ['one is confirmed and another cannot be asked for', [look(2n, unreachable), look(1n, confirmed)], 'collected'],
    ['the only one is reverted', [look(1n, reverted)], 'uncollectable'],
    ['one is reverted and its replacements are not found', [look(1n, pending), look(1n, reverted)], 'uncollectable'],
    ['one is reverted and one of another nonce is not found', [look(2n, pending), look(1n, reverted)], 'open'],
    ['one is reverted and another cannot be asked for', [look(1n, unreachable), look(1n, reverted)], 'open'],
    ['all are reverted', [look(2n, reverted), look(1n, reverted)], 'uncollectable'],
    ['none is found', [look(2n, pending), look(1n, pending)], 'open'],
    ['one moved something else', [look(1n, { outcome: 'transfer_missing', blockNumber: 5n })], 'transfer_missing'],
  ] as const)('%s', (_, looks, verdict) => {
    expect(judge(looks)).toBe(verdict)
  })
})

describe('with the payer’s nonce unused at one block', () => {
  it.each([
    ['the account nonce is still to come', [look(1n, pending)], evidence(1n, false), 'open'],
    ['the account nonce is used up', [look(1n, pending)], evidence(2n, false), 'nonce_used_elsewhere'],
    ['one of two account nonces is still to come', [look(2n, pending), look(1n, pending)], evidence(2n, false), 'open'],
    [
      'one is reverted, the other used up',
      [look(2n, pending), look(1n, reverted)],
      evidence(3n, false),
      'uncollectable',
    ],
    ['one cannot be asked for', [look(1n, unreachable)], evidence(2n, false), 'open'],
    ['the block is at the deadline, which still counts', [look(1n, pending)], evidence(1n, false, AT_DEADLINE), 'open'],
    ['the block is past the deadline', [look(1n, pending)], evidence(1n, false, PAST_DEADLINE), 'uncollectable'],
    [
      'past the deadline, and mined after that block',
      [look(1n, confirmed)],
      evidence(1n, false, PAST_DEADLINE),
      'collected',
    ],
  ] as const)('%s', (_, looks, seen, verdict) => {
    expect(judge(looks, seen)).toBe(verdict)
  })
})

describe('with the payer’s nonce used at one block', () => {
  it.each([
    ['while ours were all to come, the payer burnt it', [look(1n, pending)], evidence(1n, true), 'uncollectable'],
    [
      'and ours reverted, the payer burnt it',
      [look(2n, pending), look(1n, reverted)],
      evidence(2n, true),
      'uncollectable',
    ],
    ['and ours is found after all', [look(1n, confirmed)], evidence(2n, true), 'collected'],
    ['and ours may have been it, unseen', [look(1n, pending)], evidence(2n, true), 'unexplained'],
    ['past the deadline all the same', [look(1n, pending)], evidence(2n, true, PAST_DEADLINE), 'unexplained'],
    ['when one cannot be asked for', [look(1n, unreachable)], evidence(1n, true), 'open'],
  ] as const)('%s', (_, looks, seen, verdict) => {
    expect(judge(looks, seen)).toBe(verdict)
  })
})
