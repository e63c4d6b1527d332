import { describe, expect, it } from 'vitest'
import type { SettlementOnChain } from '#shared/chain/reading/settlement-search.ts'
import { AppError } from '#shared/errors/app-error.ts'
import type { ErrorCode } from '#shared/errors/error-codes.ts'
import type { ReviewEnding } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import {
  type Exposure,
  fitsFunds,
  isWorthReading,
  mixesPermits,
  mustFollow,
  type OpenPayment,
  openTotal,
  type PayerFunds,
} from '#shared/payment/exposure.ts'
import type { SignedBy } from '#shared/payment/facilitator.ts'
import { settlementPause } from '#shared/payment/settlement-retry.ts'
import { createPayerMemory } from '../../../api/paid-request/pay/payer-memory.ts'
import { createRememberedSearch, requireUnsettled } from '../../../api/paid-request/pay/require-unsettled.ts'
import type { Challenge } from '../../../api/paid-request/quote/challenge.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

function open(nonce: bigint, amount: bigint, changes: Partial<OpenPayment> = {}): OpenPayment {
  return { nonce, amount: atomicAmount(amount), byPermit: false, lasting: null, isSettling: false, ...changes }
}
function exposureOf(payments: readonly OpenPayment[], settledSince = 0n): Exposure {
  return { open: payments, settledSince: atomicAmount(settledSince) }
}
function fundsOf(balance: bigint, allowance: bigint, usedNonces: readonly bigint[] = []): PayerFunds {
  return {
    balance: atomicAmount(balance),
    allowance: atomicAmount(allowance),
    permitNonce: 3n,
    blockNumber: 1n,
    usedNonces: new Set(usedNonces),
  }
}
const PLAIN = { maximum: atomicAmount(10n), needsPermit: false, lasting: null }
const BY_PERMIT = { maximum: atomicAmount(10n), needsPermit: true, lasting: null }
const lasting = (amount: bigint, nonce = 3n) => ({ ...PLAIN, lasting: { amount, nonce } })
const challenge = { idempotencyKey: 'key' } as Challenge
function start() {
  let time = 1000
  const payers = createPayerMemory(() => time)
  const payment: Authorization = testAuthorization()
  return {
    payers,
    payment,
    pass: (milliseconds: number) => (time += milliseconds),
    refuse: (code: ErrorCode = 'insufficient_funds') =>
      payers.rememberRefusal(payment, new AppError(code, { message: 'Why.' }), challenge),
  }
}
function startUnproven() {
  const payers = createPayerMemory(
    () => 1000,
    ({ signature }) => (signature.endsWith('1b') ? 'key' : 'ask_chain'),
  )
  const base = testAuthorization()
  const unproven = (byte: string): Authorization => ({
    ...base,
    payer: `0x${'5a'.repeat(20)}`,
    signature: `0x${byte.repeat(130)}`,
  })
  payers.rememberVerified(unproven('01').payer)
  const refuse = (authorization: Authorization, code: ErrorCode) =>
    payers.rememberRefusal(authorization, new AppError(code), challenge)
  return { payers, honest: unproven('01'), forged: unproven('02'), refuse }
}
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
  readonly signedBy?: SignedBy
  /** Whether the payer's wallet takes the signature; default true. */
  readonly walletSigned?: boolean
  readonly isKnown?: boolean
  readonly isClaimed?: boolean
  readonly isExhausted?: boolean
  readonly ending?: ReviewEnding
  readonly payTo?: `0x${string}`
  readonly facilitator?: `0x${string}`
}
/** Refuses a payment; returns the code of the answer, `refused` for the refusal itself, and what it cost. */
async function refuse(circumstances: Circumstances): Promise<readonly string[]> {
  const { refusal = 'challenge_expired', found = SETTLED, signedBy = 'key' } = circumstances
  const seen: string[] = []
  const payment = { accepted: { network }, authorization: { ...AUTHORIZATION, gasSponsoring: null } }
  const dependencies = {
    terms: {
      network,
      asset,
      spender,
      acceptedRecipients: [circumstances.payTo ?? payTo],
      acceptedFacilitators: [circumstances.facilitator ?? facilitator],
    },
    verifier: {
      isSignedByPayer: () => signedBy,
      askWallet: async () => {
        seen.push('wallet')
        return { outcome: circumstances.walletSigned === false ? 'not_signed' : 'signed' }
      },
    },
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
      findKnownRequest: async () => ({
        claim: circumstances.isClaimed ? { jobId: '1', challengeTokenSha256: '' } : null,
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
const none = { count: 0, secondsSinceNewest: 0 }
const reverts = (count: number, secondsSinceNewest = 0) => ({ count, secondsSinceNewest })

describe('checking a payment against the payer’s funds', () => {
  it.each([
    ['fits a balance that is exactly enough', exposureOf([open(1n, 5n)]), fundsOf(15n, 100n), true],
    ['does not fit a balance that is one unit too low', exposureOf([open(1n, 5n)]), fundsOf(14n, 100n), false],
    ['fits an allowance that is exactly enough', exposureOf([open(1n, 5n)]), fundsOf(100n, 15n), true],
    ['does not fit an allowance that is one unit too low', exposureOf([open(1n, 5n)]), fundsOf(100n, 14n), false],
    ['fits together with charges settled after the reading', exposureOf([], 5n), fundsOf(15n, 15n), true],
    [
      'does not fit together with one unit more settled after the reading',
      exposureOf([], 6n),
      fundsOf(15n, 15n),
      false,
    ],
    [
      'is not counted together with payments that the reading already includes',
      exposureOf([open(1n, 5n)]),
      fundsOf(10n, 10n, [1n]),
      true,
    ],
  ])('a payment %s', (_, exposure, funds, fits) => {
    expect(fitsFunds(PLAIN, exposure, funds)).toBe(fits)
  })

  it('a payment fits without a reading only when nothing else is open or settled since', () => {
    expect(fitsFunds(PLAIN, exposureOf([]), null)).toBe(true)
    expect(fitsFunds(PLAIN, exposureOf([open(1n, 1n)]), null)).toBe(false)
    expect(fitsFunds(PLAIN, exposureOf([], 1n), null)).toBe(false)
  })

  it('ignores the allowance for a payment with its own permit', () => {
    expect(fitsFunds(BY_PERMIT, exposureOf([]), fundsOf(10n, 0n))).toBe(true)
    expect(fitsFunds(BY_PERMIT, exposureOf([open(1n, 1n, { byPermit: true })]), fundsOf(10n, 0n))).toBe(false)
  })
})

const others = (...values: readonly (bigint | null)[]) =>
  exposureOf(
    values.map((amount, index) => open(BigInt(index), 5n, { lasting: amount === null ? null : { amount, nonce: 3n } })),
  )
const stale = exposureOf([open(1n, 5n, { lasting: { amount: 100n, nonce: 2n } })])

describe('a payment with a lasting permit', () => {
  it.each([
    ['fits its permit together with those that share it', others(20n, 20n), fundsOf(100n, 0n), lasting(20n), true],
    ['does not fit a permit that is one unit too low', others(20n, 20n), fundsOf(100n, 0n), lasting(19n), false],
    ['does not fit a balance that is one unit too low', others(20n, 20n), fundsOf(19n, 0n), lasting(100n), false],
    ['fits the permit of another one, which may come first', others(15n), fundsOf(100n, 0n), lasting(100n), true],
    ['counts the lowest of the permits that may come first', others(14n), fundsOf(100n, 0n), lasting(100n), false],
    ['counts payments that rely on the allowance', others(null, null), fundsOf(100n, 10n), lasting(20n), true],
    ['fits an allowance that suffices, whatever its permit', others(20n), fundsOf(100n, 15n), lasting(1n, 2n), true],
    ['counts no permit that was used before', others(20n), fundsOf(100n, 14n), lasting(100n, 2n), false],
    ['counts no permit of a later nonce', others(20n), fundsOf(100n, 14n), lasting(100n, 4n), false],
  ])('%s', (_, exposure, funds, payment, fits) => {
    expect(fitsFunds(payment, exposure, funds)).toBe(fits)
  })

  it.each([
    ['one that relies on the allowance', others(null), fundsOf(100n, 14n), true],
    ['one whose permit was used before', stale, fundsOf(100n, 14n), true],
    ['no such payment once it is charged', stale, fundsOf(100n, 9n, [1n]), false],
    ['no other when the allowance suffices for both', others(null), fundsOf(100n, 15n), false],
    ['no other that could submit the permit', others(20n), fundsOf(100n, 0n), false],
  ])('must follow %s', (_, exposure, funds, expected) => {
    expect(fitsFunds(lasting(99n), exposure, funds)).toBe(true)
    expect(mustFollow(lasting(99n), exposure, funds)).toBe(expected)
    expect(mustFollow(PLAIN, exposure, funds)).toBe(false)
  })

  it('lends its permit to no payment without one', () => {
    expect(fitsFunds(PLAIN, others(100n), fundsOf(100n, 14n))).toBe(false)
  })
})

describe('reading the funds again', () => {
  it.each([
    ['before the first reading', [], null, true],
    ['while nothing of the payer settles', [], [], false],
    ['when the last reading asked for all that settle', [1n], [1n, 2n], false],
    ['when a settlement has begun since', [1n, 3n], [1n, 2n], true],
  ])('%s: %s', (_, settling, asked, expected) => {
    expect(isWorthReading(settling, asked)).toBe(expected)
  })
})

describe('the open total', () => {
  it('sums open amounts and charges settled since, except used nonces', () => {
    const exposure = exposureOf([open(1n, 5n), open(2n, 7n)], 3n)
    expect(openTotal(exposure, null)).toBe(15n)
    expect(openTotal(exposure, fundsOf(0n, 0n, [2n]))).toBe(8n)
  })
})

describe('mixing permits', () => {
  it('detects a permit together with a payment that relies on the lasting allowance, in either order', () => {
    expect(mixesPermits(true, exposureOf([open(1n, 1n)]))).toBe(true)
    expect(mixesPermits(false, exposureOf([open(1n, 1n, { byPermit: true })]))).toBe(true)
    expect(mixesPermits(false, exposureOf([open(1n, 1n)]))).toBe(false)
    expect(mixesPermits(true, exposureOf([]))).toBe(false)
  })
})

describe('a payment that the chain refused', () => {
  it('remembers a refused payment for ten seconds, with its reason and the remaining time', () => {
    const { payers, payment, pass, refuse } = start()
    expect(refuse()).toMatchObject({ code: 'insufficient_funds', message: 'Why.', retryAfterSeconds: 10 })
    pass(3500)
    expect(payers.findRefusal(payment)).toMatchObject({
      error: { code: 'insufficient_funds', message: 'Why.', retryAfterSeconds: 7 },
      challenge: { idempotencyKey: 'key' },
    })
    pass(6499)
    expect(payers.findRefusal(payment)).not.toBeNull()
    pass(1)
    expect(payers.findRefusal(payment)).toBeNull()
  })

  it('treats a refused payment as another one after a change of any of its parts', () => {
    const { payers, payment, refuse } = start()
    refuse()
    expect(payers.findRefusal({ ...payment })).not.toBeNull()
    for (const change of [
      { nonce: payment.nonce + 1n },
      { authorizedMaximum: (payment.authorizedMaximum + 1n) as Authorization['authorizedMaximum'] },
      { signature: `${payment.signature}00` as const },
      { payer: '0x9999999999999999999999999999999999999999' as const },
      { deadline: payment.deadline + 1n },
    ])
      expect(payers.findRefusal({ ...payment, ...change })).toBeNull()
  })

  it('forgets a refused payment when another payment of its payer verifies', () => {
    const { payers, payment, pass, refuse } = start()
    refuse()
    pass(1)
    payers.rememberVerified(payment.payer)
    expect(payers.findRefusal(payment)).toBeNull()
  })

  it.each(['payment_expired', 'challenge_expired', 'payment_terms_mismatch', 'settlement_failed'] as const)(
    'is not remembered for %s, which the chain did not decide',
    (code) => {
      const { payers, payment, refuse } = start()
      payers.rememberVerified(payment.payer)
      expect(refuse(code).retryAfterSeconds).toBeUndefined()
      expect(payers.findRefusal(payment)).toBeNull()
      expect(payers.isKnown(payment.payer)).toBe(true)
    },
  )
})

describe('payments whose signature only the payer’s wallet can judge', () => {
  it.each(['payment_signature_invalid', 'payer_has_code', 'payer_not_deployed', 'payment_rejected'] as const)(
    'remember %s for exactly the signature that was refused, so that a stranger’s is not the wallet’s own',
    (code) => {
      const { payers, honest, forged, refuse } = startUnproven()
      expect(refuse(forged, code).retryAfterSeconds).toBe(10)
      expect(payers.findRefusal(forged)?.error.code).toBe(code)
      expect(payers.findRefusal(honest)).toBeNull()
      expect(payers.isKnown(honest.payer)).toBe(true)
    },
  )

  it.each(['insufficient_funds', 'permit2_allowance_required', 'payment_nonce_used'] as const)(
    'remember %s for every spelling of the signature, and not for another payment of the wallet',
    (code) => {
      const { payers, honest, forged, refuse } = startUnproven()
      refuse(forged, code)
      expect(payers.findRefusal(honest)?.error.code).toBe(code)
      expect(payers.findRefusal({ ...honest, authorizedMaximum: atomicAmount(1n) })).toBeNull()
      expect(payers.findRefusal({ ...honest, nonce: honest.nonce + 1n })).toBeNull()
    },
  )

  it('never make a known payer new again: anybody can have them refused', () => {
    const { payers, forged, refuse } = startUnproven()
    refuse(forged, 'insufficient_funds')
    expect(payers.isKnown(forged.payer)).toBe(true)
  })

  it('remember no signature that was judged without the chain', () => {
    const { payers, refuse, honest } = startUnproven()
    const ofKey = { ...honest, signature: `0x${'1b'.repeat(65)}` as const }
    expect(refuse(ofKey, 'payment_signature_invalid').retryAfterSeconds).toBeUndefined()
    expect(payers.findRefusal(ofKey)).toBeNull()
  })
})

describe('a known payer', () => {
  it('knows a payer for an hour after a payment that verified', () => {
    const { payers, payment, pass } = start()
    expect(payers.isKnown(payment.payer)).toBe(false)
    payers.rememberVerified(payment.payer)
    pass(3_599_999)
    expect(payers.isKnown(payment.payer)).toBe(true)
    pass(1)
    expect(payers.isKnown(payment.payer)).toBe(false)
  })

  it('forgets a payer after a payment that was refused for lack of funds', () => {
    const { payers, payment, refuse } = start()
    payers.rememberVerified(payment.payer)
    refuse()
    expect(payers.isKnown(payment.payer)).toBe(false)
  })

  it('keeps a payer known whose account has code, as a stranger may cause to be said again', () => {
    const { payers, payment, refuse } = start()
    payers.rememberVerified(payment.payer)
    refuse('payer_has_code')
    expect(payers.isKnown(payment.payer)).toBe(true)
  })

  it('keeps a payer known when a stranger presents their settled payment', () => {
    const { payers, payment, refuse } = start()
    payers.rememberVerified(payment.payer)
    refuse('payment_nonce_used')
    expect(payers.isKnown(payment.payer)).toBe(true)
  })
})

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
    ['signed by someone else', { signedBy: 'no' }, ['refused']],
    [
      'of a wallet that signed',
      { signedBy: 'ask_chain' },
      ['payment_already_settled', 'allowance', 'wallet', 'search', 'record'],
    ],
    [
      'of a wallet that did not sign',
      { signedBy: 'ask_chain', walletSigned: false },
      ['refused', 'allowance', 'wallet'],
    ],
    [
      'of a known wallet whose refusal a stranger’s allowance paid for',
      { signedBy: 'ask_chain', isKnown: true, refusal: 'insufficient_funds' },
      ['payment_already_settled', 'wallet', 'search', 'record'],
    ],
    [
      'refused by the chain for its signature alone',
      { signedBy: 'ask_chain', refusal: 'payment_signature_invalid' },
      ['refused'],
    ],
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

describe('the pause before a withheld result may be settled again', () => {
  it.each([
    [0, 0],
    [1, 0],
    [2, 60],
    [3, 120],
    [4, 240],
    [7, 1920],
    [8, 3600],
    [1000, 3600],
  ])('after %i reverts of the job is %i seconds', (count, pause) => {
    expect(settlementPause({ ofJob: reverts(count), ofPayer: none, settlesAnother: true })).toBe(pause)
  })

  it.each([
    [3, 0],
    [4, 60],
    [5, 120],
    [20, 3600],
  ])('after %i reverts of the payer is %i seconds', (count, pause) => {
    expect(settlementPause({ ofJob: reverts(1), ofPayer: reverts(count), settlesAnother: false })).toBe(pause)
  })

  it('the pause is the longer of both, less the time since the newest revert, rounded up', () => {
    expect(settlementPause({ ofJob: reverts(2, 10.2), ofPayer: reverts(5, 10.2), settlesAnother: false })).toBe(110)
    expect(settlementPause({ ofJob: reverts(4, 10), ofPayer: reverts(4, 10), settlesAnother: false })).toBe(230)
    expect(settlementPause({ ofJob: reverts(4, 240), ofPayer: reverts(4, 60), settlesAnother: false })).toBe(0)
  })

  it('a payer whose free reverts are used up waits while another charge is being settled', () => {
    expect(settlementPause({ ofJob: reverts(1, 90), ofPayer: reverts(4, 90), settlesAnother: true })).toBe(5)
    expect(settlementPause({ ofJob: reverts(1, 90), ofPayer: reverts(3, 90), settlesAnother: true })).toBe(0)
  })
})
