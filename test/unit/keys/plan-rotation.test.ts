import { describe, expect, it } from 'vitest'
import type { KeyKind, KeyRotation } from '#shared/operators/key-rotation.ts'
import type { KeyFacts } from '../../../infra/keys/facts.ts'
import { planRotation } from '../../../infra/keys/plan-rotation.ts'
import { factsOf, type Keys, NOW, processWith } from './key-facts.ts'

function rotationOf(kind: KeyKind, oldKey = 'old', newKey = 'new'): KeyRotation {
  return { kind, oldKey, newKey, startedAt: NOW, operator: 'ada', reason: 'yearly' }
}

/** Returns which steps are done, as a text such as `✓✓··`. */
function doneSteps(rotation: KeyRotation, facts: KeyFacts): string {
  return planRotation(rotation, facts)
    .map(({ isDone }) => (isDone ? '✓' : '·'))
    .join('')
}

const detailOf = (rotation: KeyRotation, facts: KeyFacts, step: number) =>
  planRotation(rotation, facts)[step - 1]?.detail ?? ''

const justNow = new Date(NOW.getTime() - 599_000)
const apis = (...settings: readonly Keys[]) => settings.map((keys, index) => processWith('api', `api-${index}`, keys))

const statements = (...keys: readonly string[]) => factsOf(apis({ RECEIPT_SIGNING_KEY: keys }))
const worker = (id: string) => processWith('worker', 'worker', { RECEIPT_SECRET_ID: [id] })
const apisWithReceipts = (...keys: readonly string[]) => apis({ RECEIPT_SECRETS: keys })
const settler = (...keys: readonly string[]) =>
  processWith('worker', 'settler', { SETTLEMENT_PRIVATE_KEYS: keys, RECEIPT_SECRET_ID: ['k1'] })
const apisFor = (offered: readonly string[], accepted: readonly string[] = []) =>
  apis({ FACILITATOR_ADDRESSES: offered, ACCEPTED_FACILITATOR_ADDRESSES: accepted })

describe('a list of the API', () => {
  const rotation = rotationOf('pay-to')

  it('asks for the next step of a list only once all APIs have made the one before', () => {
    expect(doneSteps(rotation, factsOf([]))).toBe('···✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['old'] }, { PAY_TO: ['old'] })))).toBe('···✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['old', 'new'] }, { PAY_TO: ['old'] })))).toBe('···✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['old', 'new'] }, { PAY_TO: ['old', 'new'] })))).toBe('✓··✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['new', 'old'] }, { PAY_TO: ['old', 'new'] })))).toBe('✓··✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['new', 'old'] }, { PAY_TO: ['new', 'old'] })))).toBe('✓✓✓✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['new'] }, { PAY_TO: ['new', 'old'] })))).toBe('✓✓✓✓·')
    expect(doneSteps(rotation, factsOf(apis({ PAY_TO: ['new'] }, { PAY_TO: ['new'] })))).toBe('✓✓✓✓✓')
  })

  it('names the processes that a step waits for, with their number', () => {
    const facts = factsOf(apis({ PAY_TO: ['old', 'new'] }, { PAY_TO: ['old'] }, { PAY_TO: ['old'] }))
    expect(detailOf(rotation, facts, 1)).toBe('2 of 3 APIs do not accept it yet: api-1, api-2')
    expect(detailOf(rotation, factsOf([]), 1)).toBe('none of the APIs reports')
  })

  it('lets the old value go only when no challenge with it can be answered any more', () => {
    const restarted = [processWith('api', 'a', { PAY_TO: ['new', 'old'] }, justNow)]
    expect(doneSteps(rotation, factsOf(restarted))).toBe('✓✓·✓·')
    expect(detailOf(rotation, factsOf(restarted), 3)).toBe('until 2026-01-02T03:00:01.000Z')
    expect(doneSteps(rotation, factsOf(restarted, { challengeSeconds: 599 }))).toBe('✓✓✓✓·')
    const settings = [processWith('api', 'a', { CHALLENGE_SECRET: ['new', 'old'] }, justNow)]
    // Sessions of wallets are good for ten minutes, whatever is set for challenges.
    expect(doneSteps(rotationOf('challenge'), factsOf(settings, { challengeSeconds: 1 }))).toBe('✓✓··')
  })

  it('lets an earlier recipient go only when no call is paid to it any more', () => {
    const use = { ...factsOf([]).use, jobsByRecipient: { old: 2, new: 7 } }
    const facts = factsOf(apis({ PAY_TO: ['new', 'old'] }), { use })
    expect(doneSteps(rotation, facts)).toBe('✓✓✓··')
    expect(detailOf(rotation, facts, 4)).toBe('old has 2 unfinished calls')
  })

  it('keeps the earlier statement key published, and is finished when all APIs sign with the new one', () => {
    expect(doneSteps(rotationOf('statements'), statements('old', 'new'))).toBe('✓·✓')
    expect(doneSteps(rotationOf('statements'), statements('new', 'old'))).toBe('✓✓✓')
  })
})

describe('receipt secrets', () => {
  const rotation = rotationOf('receipts', 'k1:aa', 'k2:bb')

  it('lets workers use a receipt secret only after all APIs have it, and keeps the old one while results need it', () => {
    const use = { ...factsOf([]).use, resultsByReceiptSecret: { k1: 3 } }
    expect(doneSteps(rotation, factsOf([...apisWithReceipts('k1:aa', 'k2:bb'), worker('k1')], { use }))).toBe('✓····')
    expect(doneSteps(rotation, factsOf([...apisWithReceipts('k2:bb', 'k1:aa'), worker('k1')], { use }))).toBe('✓✓···')
    expect(doneSteps(rotation, factsOf([...apisWithReceipts('k2:bb', 'k1:aa'), worker('k2')], { use }))).toBe('✓✓✓··')
    expect(detailOf(rotation, factsOf([], { use }), 4)).toBe('3 stored results have a token of k1')
    expect(doneSteps(rotation, factsOf([...apisWithReceipts('k2:bb'), worker('k2')]))).toBe('✓✓✓✓✓')
  })

  it('does not take another secret with the same id for the new one', () => {
    expect(doneSteps(rotation, factsOf([...apis({ RECEIPT_SECRETS: ['k2:cc', 'k1:aa'] }), worker('k2')]))[0]).toBe('·')
  })
})

describe('settlement keys', () => {
  const rotation = rotationOf('settlement')
  const gasWei = { new: 1n, old: 10_000_000_000_000_000n }

  it('gives settlers the key before an API accepts payments for it, and removes it after the last of them', () => {
    expect(doneSteps(rotation, factsOf([settler('old'), ...apisFor(['old'])], { gasWei }))).toBe('✓····✓··')
    expect(doneSteps(rotation, factsOf([settler('old', 'new'), ...apisFor(['old'])], { gasWei }))).toBe('✓✓···✓··')
    expect(doneSteps(rotation, factsOf([settler('old', 'new'), ...apisFor(['old'], ['new'])], { gasWei }))).toBe(
      '✓✓✓··✓··',
    )
    expect(doneSteps(rotation, factsOf([settler('old', 'new'), ...apisFor(['new'], ['old'])], { gasWei }))).toBe(
      '✓✓✓✓✓✓··',
    )
    expect(doneSteps(rotation, factsOf([settler('old', 'new'), ...apisFor(['new'])], { gasWei }))).toBe('✓✓✓✓✓✓✓·')
    expect(doneSteps(rotation, factsOf([settler('new'), ...apisFor(['new'])], { gasWei }))).toBe('✓✓✓✓✓✓✓✓')
  })

  it('says whether a settlement key may be removed: its calls, its transactions that are not final, and its gas', () => {
    const processes = [settler('old', 'new'), ...apisFor(['new'], ['old'])]
    const open = { ...factsOf([]).use, jobsByFacilitator: { old: 1 }, transactionsByFacilitator: { old: 2, new: 5 } }
    expect(detailOf(rotation, factsOf(processes, { gasWei, use: open }), 6)).toBe(
      'old has 1 unfinished calls and 2 open transactions, 0.01 ETH left',
    )
    expect(detailOf(rotation, factsOf(processes, { gasWei }), 6)).toBe(
      'old has 0 unfinished calls and 0 open transactions, 0.01 ETH left: it may be removed',
    )
  })

  it('asks for gas before a settlement key is used', () => {
    const processes = [settler('old'), ...apisFor(['old'])]
    expect(doneSteps(rotation, factsOf(processes, { gasWei: { ...gasWei, new: 0n } }))[0]).toBe('·')
    expect(detailOf(rotation, factsOf(processes), 1)).toContain('RPC_URL is not set')
  })

  it('does not wait for workers that settle nothing', () => {
    const caller = processWith('worker', 'caller', { SETTLEMENT_PRIVATE_KEYS: [], RECEIPT_SECRET_ID: ['k1'] })
    const facts = factsOf([caller, settler('old', 'new'), ...apisFor(['old'])], { gasWei })
    expect(doneSteps(rotation, facts)).toBe('✓✓···✓··')
  })
})

describe('settlement keys of a contract', () => {
  const rotation = rotationOf('settlement')
  const [gasWei, SETTLEMENT_CONTRACT] = [{ new: 1n, old: 1n }, ['contract']]
  const settlerOf = (...keys: readonly string[]) =>
    processWith('worker', 'settler', { SETTLEMENT_PRIVATE_KEYS: keys, RECEIPT_SECRET_ID: ['k1'], SETTLEMENT_CONTRACT })
  const apiOf = (offered: string, ...accepted: readonly string[]) =>
    processWith('api', 'api', {
      FACILITATOR_ADDRESSES: [offered],
      ACCEPTED_FACILITATOR_ADDRESSES: accepted,
      SETTLEMENT_CONTRACT,
    })
  const steps = (...facts: Parameters<typeof factsOf>) => doneSteps(rotation, factsOf(...facts))
  const listing = (...contract: readonly string[]) => ({ gasWei, listedKeys: { contract } })

  it('lists the new key before a settler has it, and takes the old one off the list before it is removed', () => {
    expect(steps([settlerOf('old'), apiOf('old')], listing('old'))).toBe('✓······✓··')
    expect(steps([settlerOf('old'), apiOf('old')], listing('old', 'new'))).toBe('✓✓·····✓··')
    expect(steps([settlerOf('old', 'new'), apiOf('new', 'old')], listing('old', 'new'))).toBe('✓✓✓✓✓✓·✓··')
    expect(steps([settlerOf('old', 'new'), apiOf('new', 'old')], listing('new'))).toBe('✓✓✓✓✓✓✓✓··')
    expect(steps([settlerOf('new'), apiOf('new')], listing('new'))).toBe('✓✓✓✓✓✓✓✓✓✓')
  })

  it('waits for the batches that the old key sent, although their payers name no key', () => {
    const use = { ...factsOf([]).use, jobsByFacilitator: { contract: 7 }, transactionsByFacilitator: { old: 2 } }
    const facts = factsOf([settlerOf('old', 'new'), apiOf('new', 'old')], { ...listing('new'), use })
    expect(doneSteps(rotation, facts)).toBe('✓✓✓✓✓✓✓···')
  })

  it('says what the contract lists, with the command that changes it', () => {
    const facts = factsOf([settlerOf('old'), apiOf('old')], listing('old'))
    const [, toList, , , , , toRemove] = planRotation(rotation, facts)
    expect(toList).toMatchObject({
      instruction: expect.stringContaining('npm run deploy:settlement-contract -- --set-key new=listed'),
      detail: 'contract does not list new',
    })
    expect(toRemove).toMatchObject({
      instruction: expect.stringContaining('--set-key old=removed'),
      detail: 'contract lists old',
    })
    const unread = planRotation(rotation, factsOf([settlerOf('old'), apiOf('old')]))[1]
    expect(unread).toMatchObject({ isDone: true, detail: expect.stringContaining('RPC_URL is not set') })
  })
})
