import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { NextBlock } from '#shared/chain/reading/block-rhythm.ts'
import type { EarlierSettlement } from '#shared/ledger/settlement/earlier-settlements.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Confirmation, SettlementEvidence, Settler } from '#shared/payment/facilitator.ts'
import { MOST_UNMINED_NONCES } from '#shared/payment/settlement-key.ts'
import { gatherBatches } from '../../workers/settlement/own-keys/batches.ts'
import { findEarlierCharge } from '../../workers/settlement/own-keys/find-earlier-charge.ts'
import { judgeSettlement } from '../../workers/settlement/own-keys/judge-settlement.ts'
import type { TransactionStatus } from '../../workers/settlement/own-keys/read-statuses.ts'
import { createGathering, type Gathering } from '../../workers/settlement/own-keys/time-batches.ts'
import { testAuthorization } from '../support/ledger/test-authorization.ts'

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
const BLOCK_MS = 2000
const SEND_MS = 20
const MOST = 3
/** When blocks come by the chain's own rhythm, from the time at which the fake clock starts. */
const inBlocks = (): NextBlock => {
  const sinceMs = Math.floor(performance.now() / BLOCK_MS) * BLOCK_MS
  return { sinceMs, expectedMs: sinceMs + BLOCK_MS }
}
interface Item {
  readonly name: string
}
interface Sent {
  readonly atMs: number
  readonly names: string
}
/** The next block of a chain that mines immediately cannot be told. */
const immediately = () => null
const REVERTED: Confirmation = { outcome: 'reverted', blockNumber: 5n, blockHash: '0x05', gas: GAS }
const CONFIRMED: Confirmation = {
  outcome: 'confirmed',
  blockNumber: 5n,
  blockHash: '0x05',
  blockTimestamp: new Date(0),
  gas: GAS,
}
const PENDING: Confirmation = { outcome: 'pending' }
const earlier: EarlierSettlement = {
  settlementId: 'settlement',
  authorizationId: 'authorization',
  authorization: testAuthorization(),
  chargeAmount: atomicAmount(5034n),
  settledBy: 'own_key',
  transactions: [
    { hash: '0x02', sender: KEY, accountNonce: 7n },
    { hash: '0x01', sender: KEY, accountNonce: 7n },
  ],
  fillers: [],
  firstBlock: 1n,
  known: 'failed',
}
const readNothing = async () => ({ outcome: 'unreachable', cause: null }) as const
/** A settler that reads these confirmations by hash; the payer's nonce is used, and the account's next one is 8. */
function reading(confirmations: Readonly<Record<string, Confirmation>>, changes: Partial<Settler> = {}) {
  const evidence: SettlementEvidence = {
    outcome: 'read',
    blockNumber: 9n,
    blockHash: '0x09',
    accountNonceCounts: new Map([[KEY, 8n]]),
    isNonceUsed: true,
    chainTime: new Date(0),
  }
  return {
    readEvidence: () => Promise.resolve(evidence),
    confirm: (hash: string) => Promise.resolve(confirmations[hash] ?? PENDING),
    findTransfer: () => Promise.resolve('missing'),
    ...changes,
  } as unknown as Settler
}

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

describe('the judgement of a settlement', () => {
  it('judges a settlement by the newest block that it depends on: the evidence, or a later revert', () => {
    const laterRevert: Confirmation = { outcome: 'reverted', blockNumber: 10n, blockHash: '0x0a', gas: GAS }
    const statuses = [status(2n, laterRevert), status(1n, pending)]
    expect(judgeSettlement(statuses, evidence(3n, false), DEADLINE)).toMatchObject({
      verdict: 'uncollectable',
      judgedAt: { number: 10n, hash: '0x0a' },
    })
  })
})

describe('gathering a batch', () => {
  /** Gathers up to three; records what is sent, and when. Sending takes 20 ms. Those that are `full` get no outcome. */
  function gatheringOf(nextBlock: () => NextBlock | null, failing = new Set<string>(), full = new Set<string>()) {
    const sent: Sent[] = []
    const room = Promise.withResolvers<void>()
    const gathering: Gathering<Item, string> = createGathering<Item, string>({
      choose: (waiting) => ({ items: waiting.slice(0, MOST), isFull: waiting.length >= MOST }),
      send: async (items, decide) => {
        sent.push({ atMs: performance.now() - startMs, names: items.map(({ name }) => name).join(' ') })
        if (items.some(({ name }) => failing.has(name))) throw new Error('not stored')
        const outcomes = items.map(({ name }) => (name === 'bad' ? new Error('bad') : `${name} sent`))
        decide(outcomes.map((outcome, index) => (full.has(items[index]?.name ?? '') ? null : outcome)))
        await new Promise((resolve) => setTimeout(resolve, SEND_MS))
      },
      whenNonceFree: () => room.promise,
      nextBlock,
    })
    const add = (names: string) => names.split(' ').map((name) => gathering.add({ name }))
    const waitingForNonce = () => gathering.waitingForNonce()
    return { add, come: (names: string) => void add(names), sent, giveRoom: room.resolve, waitingForNonce }
  }
  let startMs = 0
  const at = async (untilMs: number) => {
    await vi.advanceTimersByTimeAsync(untilMs - (performance.now() - startMs))
  }
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
    startMs = Math.ceil(performance.now() / BLOCK_MS) * BLOCK_MS
    vi.advanceTimersByTime(startMs - performance.now())
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  describe('on a chain that mines immediately', () => {
    it('sends one that comes alone at once', async () => {
      const { add, sent } = gatheringOf(immediately)
      const [outcome] = add('a')
      await at(1)
      expect(sent).toEqual([{ atMs: 0, names: 'a' }])
      expect(await outcome).toBe('a sent')
    })

    it('sends together what arrives in the same moment', async () => {
      const { come, sent } = gatheringOf(immediately)
      come('a b')
      await at(1)
      expect(sent).toEqual([{ atMs: 0, names: 'a b' }])
    })

    it('gathers while others are sent, and sends those at once afterwards', async () => {
      const { come, sent } = gatheringOf(immediately)
      come('a')
      await at(5)
      come('b')
      await at(10)
      come('c')
      await at(SEND_MS - 1)
      expect(sent).toHaveLength(1)
      await at(SEND_MS + 5)
      expect(sent.map(({ names }) => names)).toEqual(['a', 'b c'])
    })

    it('lets those that find no room wait for it, in their turn and without another try', async () => {
      const full = new Set(['b', 'c'])
      const { add, come, sent, giveRoom, waitingForNonce } = gatheringOf(immediately, new Set(), full)
      const [first, second] = add('a b c')
      come('d e')
      await at(10 * SEND_MS)
      expect(sent).toEqual([{ atMs: 0, names: 'a b c' }])
      expect(waitingForNonce()).toBe(4)
      expect(await first).toBe('a sent')
      full.clear()
      giveRoom()
      await at(20 * SEND_MS)
      expect(sent.map(({ names }) => names)).toEqual(['a b c', 'b c d', 'e'])
      expect(await second).toBe('b sent')
      expect(waitingForNonce()).toBe(0)
    })

    it('leaves those that do not fit to the next batch', async () => {
      const { come, sent } = gatheringOf(immediately)
      come('a b c d')
      await at(100)
      expect(sent.map(({ names }) => names)).toEqual(['a b c', 'd'])
    })
  })

  describe('on a chain with blocks', () => {
    it('sends the first of a block at once, and gathers others until shortly before the next block', async () => {
      const { come, sent } = gatheringOf(inBlocks)
      await at(300)
      come('a')
      await at(600)
      come('b')
      await at(1500)
      come('c')
      await at(1700)
      expect(sent).toEqual([{ atMs: 300, names: 'a' }])
      await at(BLOCK_MS)
      expect(sent[1]?.names).toBe('b c')
      // Early enough to be stored, sent and taken into the block.
      expect(sent[1]?.atMs).toBeLessThanOrEqual(BLOCK_MS - SEND_MS - 100)
      expect(sent[1]?.atMs).toBeGreaterThan(1700)
    })

    it('sends a full batch at once', async () => {
      const { come, sent } = gatheringOf(inBlocks)
      come('a')
      await at(100)
      come('b c')
      await at(200)
      expect(sent).toHaveLength(1)
      come('d')
      await at(201)
      expect(sent[1]).toEqual({ atMs: 200, names: 'b c d' })
    })

    it('does not wait for the next block when the time for this one is nearly up', async () => {
      const { come, sent } = gatheringOf(inBlocks)
      come('a')
      await at(1950)
      come('b')
      await at(1960)
      expect(sent[1]).toEqual({ atMs: 1950, names: 'b' })
    })

    it('begins anew with each block, even when nothing was mined', async () => {
      const { come, sent } = gatheringOf(inBlocks)
      come('a')
      await at(BLOCK_MS + 10)
      come('b')
      await at(BLOCK_MS + 11)
      expect(sent[1]).toEqual({ atMs: BLOCK_MS + 10, names: 'b' })
    })

    it('stops waiting once the next block cannot be told any more', async () => {
      let isKnown = true
      const { come, sent } = gatheringOf(() => (isKnown ? inBlocks() : null))
      come('a')
      await at(100)
      come('b')
      await at(200)
      isKnown = false
      come('c')
      await at(201)
      expect(sent[1]).toEqual({ atMs: 200, names: 'b c' })
    })

    it('allows more time for sending after it took long', async () => {
      const { come, sent } = gatheringOf(inBlocks)
      come('a')
      await at(BLOCK_MS * 3)
      come('b')
      await at(BLOCK_MS * 3 + 100)
      come('c')
      await at(BLOCK_MS * 4)
      const leadMs = BLOCK_MS * 4 - (sent.at(-1)?.atMs ?? 0)
      expect(leadMs).toBeGreaterThanOrEqual(200 + SEND_MS)
      expect(leadMs).toBeLessThanOrEqual(BLOCK_MS / 2)
    })
  })

  describe('failures', () => {
    it('fails those that could not be sent together, and goes on with the others', async () => {
      const { add, sent } = gatheringOf(() => null, new Set(['broken']))
      const outcomes = Promise.allSettled(add('broken a'))
      await at(1)
      expect((await outcomes).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
      const [next] = add('b')
      await at(50)
      expect(await next).toBe('b sent')
      expect(sent.map(({ names }) => names)).toEqual(['broken a', 'b'])
    })

    it('fails one alone whose outcome is an error', async () => {
      const { add } = gatheringOf(() => null)
      const [good, bad] = add('a bad')
      const outcomes = Promise.allSettled([bad])
      await at(1)
      expect(await outcomes).toMatchObject([{ status: 'rejected', reason: new Error('bad') }])
      expect(await good).toBe('a sent')
    })
  })
})

describe('payments that waited too long for a full queue', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('are prepared again only as many as the queue may take, and the others meanwhile wait', async () => {
    const accounts = 3 * MOST_UNMINED_NONCES
    let preparing = 0
    let mostPreparing = 0
    const stored: number[] = []
    const batches = gatherBatches({
      settlementStore: {
        recordSettlement: async ({ id }: { id: string }) => {
          stored.push(Number(id))
          return { settlementId: id, batch: null, transactions: [] }
        },
      },
      settler: {},
      blockWatch: { nextBlock: immediately },
      accounts: {},
      maximumBatchGas: 1n,
    } as unknown as Parameters<typeof gatherBatches>[0])
    const place = { sender: KEY, contract: null, affordableGas: null, minimumAccountNonce: 0n } as const
    const settle = async (number: number) => {
      const recording = { job: { id: String(number) }, charge: {} } as unknown as Parameters<typeof batches.record>[0]
      const preparedLongAgo = performance.now() - 60_000
      const waiting = { ...place, waitsSinceMs: number, preparedMs: preparedLongAgo }
      if ((await batches.record(recording, waiting)) !== 'outdated') throw new Error('an old preparation was stored')
      preparing += 1
      mostPreparing = Math.max(mostPreparing, preparing)
      await new Promise((resolve) => setTimeout(resolve, 100))
      preparing -= 1
      await batches.record(recording, { ...waiting, preparedMs: performance.now() })
    }
    const settled = Promise.all(Array.from({ length: accounts }, (_, number) => settle(number)))
    await vi.advanceTimersByTimeAsync(60_000)
    await settled
    expect(mostPreparing).toBe(MOST_UNMINED_NONCES)
    expect(stored).toEqual(Array.from({ length: accounts }, (_, number) => number))
  })
})

describe('an earlier charge on chain', () => {
  it('excludes a transaction that was replaced by another with the same account nonce, which reverted', async () => {
    expect(await findEarlierCharge(reading({ '0x02': REVERTED }), earlier)).toBe('failed')
  })

  it('excludes a transaction whose account nonce was used to fill the gap that it left', async () => {
    const filled = { ...earlier, fillers: [{ hash: '0x03', sender: KEY, accountNonce: 7n }] } as const
    const mined: Confirmation = { outcome: 'transfer_missing', blockNumber: 6n }
    expect(await findEarlierCharge(reading({ '0x03': mined }), filled)).toBe('failed')
    expect(await findEarlierCharge(reading({}), filled)).toBe('unclear')
  })

  it.each([
    ['as a whole', { ...REVERTED, outcome: 'batch_reverted' }],
    ['for this payment', REVERTED],
  ] as const)('excludes a batch that reverted %s', async (_, confirmation) => {
    expect(await findEarlierCharge(reading({ '0x02': confirmation }), earlier)).toBe('failed')
  })

  it('excludes nothing by a transaction of another key with the same account nonce', async () => {
    const [newest, oldest] = earlier.transactions
    if (!newest || !oldest) throw new Error('expected two transactions')
    const ofTwoKeys = { ...earlier, transactions: [{ ...newest, sender: '0x2222' }, oldest] } as const
    expect(await findEarlierCharge(reading({ '0x02': REVERTED }), ofTwoKeys)).toBe('unclear')
    const filled = { ...earlier, fillers: [{ hash: '0x03', sender: '0x2222', accountNonce: 7n }] } as const
    const mined: Confirmation = { outcome: 'transfer_missing', blockNumber: 6n }
    expect(await findEarlierCharge(reading({ '0x03': mined }), filled)).toBe('unclear')
  })

  it.each([
    ['cannot be read', unreachable],
    ['succeeded without the transfer', { outcome: 'transfer_missing', blockNumber: 5n }],
  ] as const)('leaves an earlier settlement unclear of which one transaction %s', async (_, confirmation) => {
    const confirmations = { '0x02': REVERTED, '0x01': confirmation } as const
    expect(await findEarlierCharge(reading(confirmations), earlier)).toBe('unclear')
  })

  it('leaves an earlier settlement unclear while the chain cannot be read, or no transaction of it is known', async () => {
    expect(await findEarlierCharge(reading({ '0x02': REVERTED }, { readEvidence: readNothing }), earlier)).toBe(
      'unclear',
    )
    expect(await findEarlierCharge(reading({}), { ...earlier, transactions: [] })).toBe('unclear')
  })

  it.each([
    ['missing', 'failed'],
    ['found', 'unclear'],
    ['unreachable', 'unclear'],
  ])('looks for a transfer of its transactions before it excludes them: %s, so it is %s', async (found, charge) => {
    const asked: unknown[] = []
    const findTransfer = (async (...question) => {
      asked.push(question)
      return found
    }) as Settler['findTransfer']
    expect(await findEarlierCharge(reading({ '0x02': REVERTED }, { findTransfer }), earlier)).toBe(charge)
    expect(asked).toEqual([[['0x02', '0x01'], earlier.authorization, earlier.firstBlock]])
  })

  it('leaves an earlier settlement unclear while one of its transactions may have used the nonce', async () => {
    expect(await findEarlierCharge(reading({}), earlier)).toBe('unclear')
  })

  it('leaves a settlement by a remote facilitator to the workers that have the facilitator', async () => {
    expect(
      await findEarlierCharge(reading({ '0x02': CONFIRMED }), { ...earlier, settledBy: 'remote_facilitator' }),
    ).toBe('unclear')
    expect(await findEarlierCharge(reading({ '0x02': CONFIRMED }), earlier)).toBe('charged')
  })
})
