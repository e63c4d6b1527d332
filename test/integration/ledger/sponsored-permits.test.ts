import { randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { ClaimedPermit } from '#shared/ledger/allowances/claim-allowances.ts'
import type { MinedPermit } from '#shared/ledger/allowances/finish-allowance.ts'
import type { SponsoringLimits } from '#shared/ledger/allowances/sponsoring-limits.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import type { RequestedPermit } from '../../support/payer/allowance-permit.ts'

let ledger: TestLedger
/** Wallets that have paid. */
let paying: readonly `0x${string}`[]
beforeAll(async () => {
  ledger = await createTestLedger()
  paying = await Promise.all(Array.from({ length: 40 }, payingOwner))
})
afterEach(async () => {
  await ledger.sql('DELETE FROM settlement_transactions')
  await ledger.sql('DELETE FROM sponsored_permits')
})
afterAll(() => ledger.close())

const LIMITS: SponsoringLimits = {
  perOwnerSeconds: 86_400,
  dailyGasWei: 1000n,
  reservedGasWei: 600n,
  expectedGasWei: 100n,
  clientNetwork: null,
  minimumBalance: 0n,
}
const DAY = 86_400

function randomHex(bytes: number): `0x${string}` {
  return `0x${randomBytes(bytes).toString('hex')}`
}

async function payingOwner(): Promise<`0x${string}`> {
  const payer = randomHex(20)
  await jobInState(ledger, 'completed', newTestJob({ authorization: testAuthorization({ payer }) }))
  return payer
}

let turn = 0
function nextPaying(): `0x${string}` {
  turn += 1
  return paying[turn % paying.length] ?? '0x'
}

function newPermit(owner = nextPaying()): RequestedPermit {
  return { owner, value: 5n, deadline: 10n, nonce: 0n, signature: randomHex(65), digest: randomHex(32) }
}

const request = (permit: RequestedPermit, limits: Partial<SponsoringLimits> = {}) =>
  ledger.allowances.requestAllowance(permit, { ...LIMITS, ...limits })

function minedFor(costWei: bigint): MinedPermit {
  const gas = { gasUsed: 1n, effectiveGasPrice: costWei, cost: atomicAmount(1n) }
  return { transaction: randomHex(32), blockNumber: 7n, blockHash: randomHex(32), gas, costWei }
}

async function claimOne(): Promise<ClaimedPermit> {
  const [claim] = await ledger.allowances.claimAllowances(60_000, 1)
  if (!claim) throw new Error('nothing is due')
  return claim
}

/** Signs the oldest permit that is due with the first settlement key. */
async function sign(): Promise<ClaimedPermit> {
  const claim = await claimOne()
  const account = { network: 'eip155:8453', facilitator: '0x01' } as const
  const signed = await ledger.allowances.recordPermit(claim, {
    account,
    // All earlier ones are mined.
    minimumAccountNonce: (await ledger.settlement.readNextAccountNonce(account)) ?? 0n,
    sign: async () => ({ hash: randomHex(32), raw: '0x02' }),
  })
  if (typeof signed === 'string') throw new Error(signed)
  return { ...claim, signed }
}

/** Requests a permit and confirms it at a cost. */
async function sponsored(costWei: bigint, owner?: `0x${string}`): Promise<void> {
  expect(await request(newPermit(owner))).toMatchObject({ outcome: 'accepted' })
  await ledger.allowances.confirmAllowance(await sign(), { by: 'own_transaction', mined: minedFor(costWei) })
}

describe('a permit that is requested', () => {
  it('is one row for concurrent requests, and the same answer for every later one', async () => {
    const permit = newPermit()
    const answers = await Promise.all(Array.from({ length: 8 }, () => request(permit)))
    expect(answers.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(1)
    expect(new Set(answers.map((answer) => ('allowanceId' in answer ? answer.allowanceId : answer.outcome))).size).toBe(
      1,
    )
    await ledger.allowances.confirmAllowance(await sign(), { by: 'own_transaction', mined: minedFor(1n) })
    expect(await request(permit)).toMatchObject({ outcome: 'existing', state: 'confirmed' })
    const found = await ledger.allowances.findSponsoredPermit(permit.digest)
    expect(found).toMatchObject({ owner: permit.owner, value: 5n, nonce: 0n, outcome: { state: 'confirmed' } })
    expect(await ledger.allowances.findLatestSponsored(permit.owner)).toEqual(found)
  })

  it('is tried again under its id when it failed without a cost, and not when it cost gas', async () => {
    const permit = newPermit()
    const first = await request(permit)
    const failure = { code: 'permit_rejected', reason: 'test' } as const
    await ledger.allowances.failAllowance(await claimOne(), failure, null)
    expect(await request(permit)).toEqual(first)
    await ledger.allowances.failAllowance(await sign(), { ...failure, code: 'permit_reverted' }, minedFor(1n))
    expect(await request(permit)).toMatchObject({ outcome: 'existing', state: 'failed' })
  })
})

describe('the ceiling of a day', () => {
  it('is not passed by concurrent requests of different owners', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => request(newPermit())))
    expect(answers.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(10)
    expect(answers.filter(({ outcome }) => outcome === 'ceiling_reached')).toHaveLength(30)
  })

  it('counts what a permit is expected to cost until its cost is known, and a permit without a cost not at all', async () => {
    expect(await request(newPermit(), { expectedGasWei: 950n })).toMatchObject({ outcome: 'accepted' })
    expect(await request(newPermit())).toEqual({ outcome: 'ceiling_reached', retryAfterSeconds: 10 })
    await ledger.allowances.confirmAllowance(await sign(), { by: 'own_transaction', mined: minedFor(900n) })
    expect(await request(newPermit())).toMatchObject({ outcome: 'accepted' })
    expect(await request(newPermit())).toMatchObject({ outcome: 'ceiling_reached' })
    await ledger.allowances.failAllowance(await claimOne(), { code: 'owner_has_code', reason: 'test' }, null)
    expect(await request(newPermit())).toMatchObject({ outcome: 'accepted' })
  })

  it('counts 24 hours, and names the time at which enough of them have passed', async () => {
    await sponsored(500n)
    await ledger.sql("UPDATE sponsored_permits SET finished_at = now() - interval '23 hours'")
    await sponsored(450n)
    const refused = await request(newPermit())
    expect(refused).toMatchObject({ outcome: 'ceiling_reached' })
    const seconds = 'retryAfterSeconds' in refused ? refused.retryAfterSeconds : 0
    expect(seconds).toBeGreaterThan(3000)
    expect(seconds).toBeLessThanOrEqual(3600)
    await ledger.sql("UPDATE sponsored_permits SET finished_at = finished_at - interval '1 hour' WHERE gas_wei = 500")
    expect(await request(newPermit())).toMatchObject({ outcome: 'accepted' })
  })
})

const stranger = () => newPermit(randomHex(20))
const outcomesOf = async (requests: readonly Promise<{ readonly outcome: string }>[]) =>
  Object.fromEntries(
    [...Map.groupBy(await Promise.all(requests), ({ outcome }) => outcome)].map(([name, { length }]) => [name, length]),
  )
const network = (number: number) => ({ clientNetwork: `192.0.${number}.0/24` })

describe('the shares of wallets that never paid', () => {
  it('are a quarter of the ceiling in an hour, which concurrent requests of many networks do not pass', async () => {
    const requests = Array.from({ length: 40 }, (_, number) => request(stranger(), network(number)))
    expect(await outcomesOf(requests)).toEqual({ accepted: 2, ceiling_reached: 38 })
    expect(await request(newPermit())).toMatchObject({ outcome: 'accepted' })
    await ledger.sql(
      "UPDATE sponsored_permits SET state = 'confirmed', block_number = 1, finished_at = now() - interval '50 minutes', gas_wei = 100, gas_used = 1, effective_gas_price = 1, gas_cost = 1, transaction_hash = 'h', block_hash = 'b'",
    )
    const refused = await request(stranger(), network(99))
    expect(refused).toMatchObject({ outcome: 'ceiling_reached' })
    const seconds = 'retryAfterSeconds' in refused ? refused.retryAfterSeconds : 0
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(600)
    await ledger.sql("UPDATE sponsored_permits SET finished_at = finished_at - interval '11 minutes'")
    expect(await request(stranger(), network(99))).toMatchObject({ outcome: 'accepted' })
  })

  it('are a sixteenth of the ceiling in a day for each network, which others do not lose', async () => {
    const limits = { dailyGasWei: 16_000n, ...network(1) }
    const requests = Array.from({ length: 12 }, () => request(stranger(), limits))
    expect(await outcomesOf(requests)).toEqual({ accepted: 10, ceiling_reached: 2 })
    expect(await request(stranger(), { ...limits, ...network(2) })).toMatchObject({ outcome: 'accepted' })
    expect(await request(newPermit(), limits)).toMatchObject({ outcome: 'accepted' })
  })

  it('let each network have one permit a day, however high fees are', async () => {
    expect(await request(stranger(), network(1))).toMatchObject({ outcome: 'accepted' })
    expect(await request(stranger(), network(1))).toMatchObject({ outcome: 'ceiling_reached' })
    expect(await request(stranger(), network(2))).toMatchObject({ outcome: 'accepted' })
  })

  it('leave a quarter of a day to wallets that paid', async () => {
    await ledger.sql(
      `INSERT INTO sponsored_permits (digest, network, owner, value, deadline, permit_nonce, signature, reserved_gas_wei,
         minimum_balance, state, block_number, finished_at, gas_wei, gas_used, effective_gas_price, gas_cost,
         transaction_hash, block_hash, is_new_owner)
       SELECT 'spent' || hour, 'n', 'o' || hour, 1, 1, 0, '0x', 1, 0, 'confirmed', 1, now() - make_interval(hours => hour),
         240, 1, 1, 1, 'h' || hour, 'b', true FROM generate_series(2, 4) AS hour`,
    )
    expect(await request(stranger(), network(1))).toMatchObject({ outcome: 'ceiling_reached' })
    expect(await request(newPermit())).toMatchObject({ outcome: 'accepted' })
  })

  it('are counted by a network that is forgotten after a day', async () => {
    await request(stranger(), network(1))
    await ledger.allowances.failAllowance(await claimOne(), { code: 'permit_rejected', reason: 'test' }, null)
    await ledger.sql("UPDATE sponsored_permits SET requested_at = now() - interval '25 hours'")
    await request(stranger(), network(2))
    expect(await ledger.sql('SELECT client_network FROM sponsored_permits WHERE client_network IS NOT NULL')).toEqual([
      { client_network: '192.0.2.0/24' },
    ])
  })
})

describe('the limit of an owner', () => {
  it('allows one permit in progress, and the next one a day after the last that cost gas', async () => {
    const owner = nextPaying()
    expect(await request(newPermit(owner))).toMatchObject({ outcome: 'accepted' })
    const limits = { perOwnerSeconds: DAY, dailyGasWei: 1000n, expectedGasWei: 0n, clientNetwork: null }
    const inProgress = { outcome: 'owner_limit', retryAfterSeconds: 10 }
    expect(await request(newPermit(owner))).toEqual(inProgress)
    expect(await ledger.allowances.findSponsoringRefusal(owner, limits)).toEqual(inProgress)
    await ledger.allowances.failAllowance(await claimOne(), { code: 'permit_rejected', reason: 'test' }, null)
    await sponsored(1n, owner)
    const refused = await request(newPermit(owner))
    expect(refused).toMatchObject({ outcome: 'owner_limit' })
    expect('retryAfterSeconds' in refused && refused.retryAfterSeconds > DAY - 100).toBe(true)
    await ledger.sql("UPDATE sponsored_permits SET finished_at = finished_at - interval '1 day'")
    expect(await ledger.allowances.findSponsoringRefusal(owner, limits)).toBeNull()
    expect(await request(newPermit(owner))).toMatchObject({ outcome: 'accepted' })
  })
})

describe('a permit that is signed', () => {
  const failure = { code: 'payment_network_unavailable', reason: 'test' } as const

  it('does not fail before a transaction with its account nonce is mined', async () => {
    const { allowances } = ledger
    await request(newPermit())
    const claim = await sign()
    expect(await allowances.failAllowance(claim, failure, null)).toBe('stale')
    expect(await allowances.readAllowanceOutcomes([claim.allowanceId])).toEqual(
      new Map([[claim.allowanceId, { state: 'pending' }]]),
    )
    expect(await allowances.failAllowance(claim, failure, minedFor(1n))).toBe('written')
  })

  it('leaves its transaction of another key behind when it is signed again, even for the same number', async () => {
    await request(newPermit())
    const first = await sign()
    await ledger.allowances.requestAgain(first)
    const account = { network: 'eip155:8453', facilitator: '0x0a' } as const
    const accountNonce = first.signed?.accountNonce ?? 0n
    const again = await ledger.allowances.recordPermit(await claimOne(), {
      account,
      minimumAccountNonce: accountNonce,
      sign: async () => ({ hash: randomHex(32), raw: '0x02' }),
    })
    expect(again).toMatchObject({ accountNonce })
    const isAbandonedIn = async (facilitator: `0x${string}`) =>
      (await ledger.settlement.readNonceQueue({ ...account, facilitator }, accountNonce)).transactions[0]?.isAbandoned
    expect([await isAbandonedIn('0x01'), await isAbandonedIn('0x0a')]).toEqual([true, false])
  })
})

/** Returns the numbers of the blocks that are checked when blocks up to `finalized` are final. */
const checkedBlocks = async (finalized: bigint) =>
  (await ledger.allowances.findUnfinalAllowanceBlocks(finalized))
    .map(({ number }) => Number(number))
    .toSorted((one, other) => one - other)

describe('the blocks that decided permits', () => {
  it('are checked while they are among the newest, and once they may be final', async () => {
    for (let block = 1n; block <= 12n; block += 1n) {
      await request(newPermit())
      const mined = { ...minedFor(1n), blockNumber: block }
      await ledger.allowances.confirmAllowance(await sign(), { by: 'own_transaction', mined })
    }
    expect(await checkedBlocks(0n)).toEqual([5, 6, 7, 8, 9, 10, 11, 12])
    expect(await checkedBlocks(2n)).toEqual([1, 2, 5, 6, 7, 8, 9, 10, 11, 12])
  })
})

describe('the lease of a permit', () => {
  it('is held by one worker until it expires or is released, and every write needs its fence', async () => {
    const { allowances } = ledger
    await request(newPermit())
    const claims = await Promise.all(Array.from({ length: 8 }, () => allowances.claimAllowances(60_000, 8)))
    expect(claims.flat()).toHaveLength(1)
    const [first] = claims.flat()
    if (!first) throw new Error('nothing was claimed')
    expect(await allowances.releaseAllowance(first, 0)).toBe('written')
    const second = await claimOne()
    expect(second.fence).toBe(first.fence + 1n)
    expect(await allowances.renewAllowance(first, 60_000)).toBe('stale')
    const signing = { account: { network: 'n', facilitator: '0x01' }, minimumAccountNonce: 0n } as const
    const late = { ...signing, sign: async () => ({ hash: randomHex(32), raw: '0x02' as const }) }
    expect(await allowances.recordPermit(first, late)).toBe('stale')
    const granted = { by: 'own_transaction', mined: minedFor(1n) } as const
    expect(await allowances.confirmAllowance(first, granted)).toBe('stale')
    expect(await allowances.renewAllowance(second, 1)).toBe('written')
    await expect.poll(async () => (await allowances.claimAllowances(60_000, 8)).length).toBe(1)
  })
})

const refuses = () => Promise.reject(new Error('no key'))

describe('account nonces', () => {
  it('are those of settlements, without a gap after a signature that failed', async () => {
    await request(newPermit())
    await request(newPermit())
    const claim = await claimOne()
    const account = { network: 'eip155:8453', facilitator: '0x09' } as const
    const signing = { account, minimumAccountNonce: 4n, sign: refuses }
    await expect(ledger.allowances.recordPermit(claim, signing)).rejects.toThrow('no key')
    const sign = async () => ({ hash: randomHex(32), raw: '0x02' as const })
    const signed = await ledger.allowances.recordPermit(claim, { ...signing, sign })
    expect(signed).toMatchObject({ accountNonce: 4n, fillers: [], isAbandoned: false })
    expect(await ledger.settlement.readNextAccountNonce(account)).toBe(5n)
    expect(await ledger.settlement.readNonceQueue(account, 4n)).toMatchObject({
      transactions: [{ accountNonce: 4n, isAbandoned: false, maximumCostWei: 600n }],
    })
    expect(await ledger.settlement.fillGap(account, 4n, { hash: randomHex(32), raw: '0x03' })).toBe(false)
  })
})

/** Returns the constraint that an update violates. */
const violated = (set: string) =>
  ledger.sql(`UPDATE sponsored_permits SET ${set}`).then(
    () => 'none',
    (error: unknown) => (error as { constraint?: string }).constraint,
  )

it('keeps contradictory rows out of the ledger', async () => {
  await request(newPermit())
  await sign()
  expect(await violated("state = 'confirmed'")).toBe('confirmed_permit_has_block')
  expect(await violated("state = 'failed', finished_at = now()")).toBe('failed_permit_has_code')
  expect(await violated("state = 'paid'")).toBe('sponsored_permits_state_check')
  expect(await violated('finished_at = now()')).toBe('finished_permit_has_time')
  expect(await violated('account_nonce = NULL')).toBe('permit_account_is_complete')
  expect(await violated('account_nonce = NULL, facilitator = NULL')).toBe('signed_permit_has_account_nonce')
  expect(await violated('gas_wei = 1')).toMatch(/gas/)
  expect(await violated('reserved_gas_wei = 0')).toBe('sponsored_permits_reserved_gas_wei_check')
})
