import { describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import type { ReviewEnding } from '#shared/jobs/job.ts'
import type { SettlementOnChain } from '#shared/payment/settlement-search.ts'
import { createRememberedSearch } from '../../../api/paid-request/payment/remembered-search.ts'
import { requireUnsettled } from '../../../api/paid-request/payment/require-unsettled.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const AUTHORIZATION = testAuthorization()
const { network, asset, payTo, spender, facilitator } = AUTHORIZATION
const SETTLED: SettlementOnChain = {
  outcome: 'settled',
  transaction: `0x${'a'.repeat(64)}`,
  blockNumber: 7n,
  amount: AUTHORIZATION.authorizedMaximum,
}

interface Circumstances {
  readonly refusal?: ConstructorParameters<typeof AppError>[0]
  readonly found?: SettlementOnChain
  readonly isSigned?: boolean
  readonly isKnown?: boolean
  readonly isClaimed?: boolean
  readonly isExhausted?: boolean
  readonly ending?: ReviewEnding
  readonly payTo?: `0x${string}`
  readonly facilitator?: `0x${string}`
}

/** Refuses a payment; returns the code of the answer, `refused` for the refusal itself, and what it cost. */
async function refuse(circumstances: Circumstances): Promise<readonly string[]> {
  const { refusal = 'challenge_expired', found = SETTLED, isSigned = true } = circumstances
  const seen: string[] = []
  const { authorizedMaximum, payer, nonce, deadline, validAfter, signature } = AUTHORIZATION
  const payment = {
    accepted: { network },
    payload: {
      signature,
      permit2Authorization: {
        from: payer,
        permitted: { token: asset, amount: authorizedMaximum },
        spender,
        nonce,
        deadline,
        witness: { to: payTo, facilitator, validAfter },
      },
    },
    gasSponsoring: null,
  }
  const dependencies = {
    terms: {
      network,
      asset,
      spender,
      acceptedRecipients: [circumstances.payTo ?? payTo],
      acceptedFacilitators: [circumstances.facilitator ?? facilitator],
    },
    verifier: { isSignedByPayer: () => isSigned },
    payers: { isKnown: () => circumstances.isKnown === true },
    limitVerifications: () => {
      seen.push('allowance')
      if (circumstances.isExhausted) throw new AppError('rate_limited')
      return () => undefined
    },
    settlementSearch: {
      find: async () => {
        seen.push('search')
        return found
      },
    },
    store: {
      findPriorWork: async () => ({
        holder: null,
        claim: circumstances.isClaimed ? { jobId: '1', hasSameToken: true } : null,
      }),
      recordUnknownSettlement: async () => void seen.push('record'),
      findUnknownEnding: async () => circumstances.ending ?? null,
    },
    logger: { info: () => undefined, warn: () => undefined, error: () => undefined },
  }
  const header = { decoded: { outcome: 'decoded', payment } }
  const answer = await requireUnsettled(dependencies as never, header as never, new AppError(refusal), 'key', {
    id: 'request',
  } as never).then(
    () => 'refused',
    (error: unknown) => (error instanceof AppError ? error.code : String(error)),
  )
  return [answer, ...seen]
}

describe('a refused payment', () => {
  it.each<[string, Circumstances, readonly string[]]>([
    ['settled without a record', {}, ['payment_already_settled', 'allowance', 'search', 'record']],
    [
      'settled without a record and refunded',
      { ending: { outcome: 'refunded', transaction: `0x${'b'.repeat(64)}` } },
      ['payment_refunded', 'allowance', 'search'],
    ],
    [
      'settled without a record and settled outside',
      { ending: { outcome: 'paid_outside' } },
      ['payment_resolved_outside', 'allowance', 'search'],
    ],
    [
      'settled without a record and written off',
      { ending: { outcome: 'written_off' } },
      ['payment_already_settled', 'allowance', 'search'],
    ],
    ['settled, which the ledger knows', { isClaimed: true }, ['refused', 'allowance', 'search']],
    ['unused', { found: { outcome: 'unused' } }, ['refused', 'allowance', 'search']],
    ['cancelled by its payer', { found: { outcome: 'cancelled' } }, ['refused', 'allowance', 'search']],
    [
      'used without an explanation',
      { found: { outcome: 'unexplained' } },
      ['settlement_under_review', 'allowance', 'search'],
    ],
    [
      'beyond reach',
      { found: { outcome: 'unreachable', cause: null } },
      ['payment_state_unknown', 'allowance', 'search'],
    ],
    ['signed by someone else', { isSigned: false }, ['refused']],
    ['addressed to someone else', { payTo: `0x${'9'.repeat(40)}` }, ['refused']],
    ['to be settled by someone else', { facilitator: `0x${'9'.repeat(40)}` }, ['refused']],
    ['known to the ledger', { refusal: 'fresh_signature_required' }, ['refused']],
    ['beyond the allowance of its network', { isExhausted: true }, ['rate_limited', 'allowance']],
    ['of a known payer', { isKnown: true }, ['payment_already_settled', 'allowance', 'search', 'record']],
    [
      'refused by a chain reading that was counted',
      { refusal: 'insufficient_funds' },
      ['payment_already_settled', 'search', 'record'],
    ],
    [
      'refused by a chain reading that was not counted',
      { refusal: 'insufficient_funds', isKnown: true },
      ['payment_already_settled', 'allowance', 'search', 'record'],
    ],
  ])('that is %s is looked up, counted and answered accordingly', async (_, circumstances, expected) => {
    expect(await refuse(circumstances)).toEqual(expected)
  })
})

describe('the memory of searches', () => {
  it.each<[SettlementOnChain['outcome'], SettlementOnChain, readonly number[]]>([
    ['settled', SETTLED, [1, 1, 1]],
    ['cancelled', { outcome: 'cancelled' }, [1, 1, 1]],
    ['unexplained', { outcome: 'unexplained' }, [1, 1, 2]],
    ['unused', { outcome: 'unused' }, [1, 1, 2]],
    ['unreachable', { outcome: 'unreachable', cause: null }, [1, 2, 3]],
  ])('repeats that a payment is %s for as long as that cannot change', async (_, found, searches) => {
    let [now, asked] = [0, 0]
    const search = createRememberedSearch({ find: async () => (asked++, found) }, () => now)
    const counted: number[] = []
    for (now of [0, 9_999, 20_000]) {
      expect(await search.find(AUTHORIZATION)).toEqual(found)
      counted.push(asked)
    }
    expect(counted).toEqual(searches)
  })

  it('serves every signature with the same nonce', async () => {
    let asked = 0
    const search = createRememberedSearch({ find: async () => (asked++, SETTLED) })
    await search.find(AUTHORIZATION)
    await search.find({ ...AUTHORIZATION, signature: `0x${'1'.repeat(130)}`, deadline: 1n })
    expect(asked).toBe(1)
    await search.find({ ...AUTHORIZATION, nonce: AUTHORIZATION.nonce + 1n })
    expect(asked).toBe(2)
  })

  it('lets 200 searches run or wait, and answers others that the chain cannot be read', async () => {
    const held = Promise.withResolvers<SettlementOnChain>()
    const search = createRememberedSearch({ find: () => held.promise })
    const find = (nonce: bigint) => search.find({ ...AUTHORIZATION, nonce })
    const running = Array.from({ length: 200 }, (_, index) => find(BigInt(index)))
    expect(await find(200n)).toMatchObject({ outcome: 'unreachable' })
    held.resolve(SETTLED)
    expect(await Promise.all(running)).toEqual(running.map(() => SETTLED))
    expect(await find(201n)).toEqual(SETTLED)
  })
})
