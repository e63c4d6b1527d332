import { describe, expect, it } from 'vitest'
import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { KeyKind, KeyRotation } from '#shared/operators/key-rotation.ts'
import { beginRotation } from '../../infra/commands/keys/begin-rotation.ts'
import type { KeyFacts } from '../../infra/commands/keys/facts.ts'
import { findProblems } from '../../infra/commands/keys/find-problems.ts'
import { type KeysCommand, readOptions } from '../../infra/commands/keys/options.ts'
import { planRotation } from '../../infra/commands/keys/plan-rotation.ts'
import { describeStatus, renderStatus } from '../../infra/commands/keys/render-status.ts'
import { factsOf, type Keys, NOW, processWith } from '../support/key-facts.ts'

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
type Rotate = Extract<KeysCommand, { command: 'rotate' }>
const [FIRST, SECOND, THIRD] = [`0x${'a1'.repeat(20)}`, `0x${'b2'.repeat(20)}`, `0x${'c3'.repeat(20)}`] as const
const KEYS: Keys = {
  PAY_TO: [FIRST],
  FACILITATOR_ADDRESSES: [SECOND],
  ACCEPTED_FACILITATOR_ADDRESSES: [],
  CHALLENGE_SECRET: ['cc'],
  RECEIPT_SECRETS: ['k9:aa', 'k10:bb'],
  RECEIPT_SIGNING_KEY: ['k1:dd'],
}
const apiWith = (changes: Keys = {}, name = 'api') => processWith('api', name, { ...KEYS, ...changes })
const SETTLER = processWith('worker', 'settler', { SETTLEMENT_PRIVATE_KEYS: [SECOND], RECEIPT_SECRET_ID: ['k9'] })
const request = (kind: Rotate['kind'], changes: Partial<Rotate> = {}): Rotate => ({
  command: 'rotate',
  kind,
  address: null,
  replaces: null,
  reason: 'yearly',
  isForced: false,
  ...changes,
})

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

describe('a new rotation', () => {
  it('generates a value that a process identifies as the new key, with an id that was never used', () => {
    const facts = factsOf([apiWith(), SETTLER])
    const receipts = beginRotation(request('receipts'), facts)
    const [id = '', secret = ''] = receipts.newKey.value.split(':')
    expect([id, receipts.rotation.newKey]).toEqual(['k11', namedFingerprint(id, secret)])
    expect(secret).toMatch(/^[0-9a-f]{64}$/)
    const challenge = beginRotation(request('challenge'), facts)
    expect(challenge.rotation).toMatchObject({ oldKey: 'cc', newKey: keyFingerprint(challenge.newKey.value) })
    const statements = beginRotation(request('statements', { isForced: true }), {
      ...facts,
      rotations: [
        { kind: 'statements', newKey: 'k7:ee', oldKey: 'k1:dd', startedAt: NOW, operator: 'ada', reason: 'given up' },
      ],
    })
    expect(statements.rotation.newKey).toMatch(/^k8:/)
  })

  it('refuses a rotation while the last one of its kind is not finished, unless forced', () => {
    const last = {
      kind: 'challenge',
      newKey: 'dd',
      oldKey: 'cc',
      startedAt: NOW,
      operator: 'ada',
      reason: 'x',
    } as const
    const facts = factsOf([apiWith(), SETTLER], { rotations: [last] })
    expect(() => beginRotation(request('challenge'), facts)).toThrow('ada started a rotation of this kind')
    expect(beginRotation(request('challenge', { isForced: true }), facts).rotation.oldKey).toBe('cc')
    expect(beginRotation(request('receipts'), facts).rotation.oldKey).toBe('k9:aa')
    // Both keys were replaced in another way.
    const replaced = factsOf([apiWith({ CHALLENGE_SECRET: ['ff'] }), SETTLER], { rotations: [last] })
    expect(beginRotation(request('challenge'), replaced).rotation.oldKey).toBe('ff')
  })

  it.each([
    ['without a running API', factsOf([SETTLER]), request('challenge'), 'No API reports'],
    [
      'while the APIs disagree',
      factsOf([apiWith(), apiWith({ CHALLENGE_SECRET: ['ee'] }, 'other')]),
      request('challenge'),
      'do not agree on CHALLENGE_SECRET: cc, ee',
    ],
    [
      'of one of several settlement keys without its address',
      factsOf([apiWith({ FACILITATOR_ADDRESSES: [SECOND, THIRD] })]),
      request('settlement'),
      `--replaces: ${SECOND}, ${THIRD}`,
    ],
    [
      'of a settlement key that is not in use',
      factsOf([apiWith()]),
      request('settlement', { replaces: THIRD }),
      `must be one of ${SECOND}`,
    ],
    [
      'of the keys of a remote facilitator',
      factsOf([apiWith({ FACILITATOR_ADDRESSES: [] })]),
      request('settlement'),
      'remote facilitator',
    ],
    ['to the same recipient', factsOf([apiWith()]), request('pay-to', { address: FIRST }), 'in PAY_TO already'],
    [
      'to a settlement key as the recipient',
      factsOf([apiWith(), SETTLER]),
      request('pay-to', { address: SECOND }),
      'is a settlement key',
    ],
  ])('refuses a rotation %s', (_name, facts, rotate, message) => {
    expect(() => beginRotation(rotate, facts)).toThrow(message)
  })
})

describe('problems', () => {
  it('reports nothing wrong while a rotation keeps to its steps', () => {
    expect(findProblems(factsOf([apiWith(), SETTLER]))).toEqual([])
    const added = apiWith({ CHALLENGE_SECRET: ['cc', 'ee'], PAY_TO: [FIRST, THIRD] }, 'other')
    expect(findProblems(factsOf([apiWith(), added, SETTLER]))).toEqual([])
  })

  it.each([
    [[apiWith({ CHALLENGE_SECRET: ['ee', 'cc'] }, 'b')], '1 of 2 APIs do not accept ee of CHALLENGE_SECRET'],
    [[apiWith({ PAY_TO: [THIRD, FIRST] }, 'b')], `1 of 2 APIs do not accept ${THIRD} of PAY_TO`],
    [[apiWith({ FACILITATOR_ADDRESSES: [THIRD] }, 'b')], `no settler has the key of ${THIRD}`],
    [
      [apiWith({ FACILITATOR_ADDRESSES: [THIRD], ACCEPTED_FACILITATOR_ADDRESSES: [SECOND] }, 'b')],
      `an API does not accept payments for ${THIRD}, which another one asks for`,
    ],
    [
      [processWith('worker', 'w', { RECEIPT_SECRET_ID: ['k3'] })],
      'no API has the receipt secret k3, which workers use',
    ],
  ])('reports what one process uses and another one does not know', (others, problem) => {
    expect(findProblems(factsOf([apiWith(), SETTLER, ...others]))).toContain(problem)
  })

  it('asks for a settlement key back that was removed too early', () => {
    const use = { ...factsOf([]).use, jobsByFacilitator: { [THIRD]: 2 }, transactionsByFacilitator: { [THIRD]: 1 } }
    expect(findProblems(factsOf([apiWith(), SETTLER], { use }))).toEqual([
      `2 calls and 1 transactions need the key of ${THIRD}, which no settler has: bring it back`,
    ])
  })
})

describe('problems of a settlement contract', () => {
  const CONTRACT = `0x${'d4'.repeat(20)}`
  const SETTLEMENT_CONTRACT = [CONTRACT]
  const api = apiWith({ SETTLEMENT_CONTRACT })
  const settler = processWith('worker', 'settler', {
    SETTLEMENT_PRIVATE_KEYS: [SECOND],
    RECEIPT_SECRET_ID: ['k9'],
    SETTLEMENT_CONTRACT,
  })
  const use = { ...factsOf([]).use, jobsByFacilitator: { [CONTRACT]: 5 } }

  it('takes payments that name the contract, or the one it replaces, for no missing key', () => {
    expect(findProblems(factsOf([api, settler], { use, listedKeys: { [CONTRACT]: [SECOND] } }))).toEqual([])
    const accepting = apiWith({ SETTLEMENT_CONTRACT, ACCEPTED_FACILITATOR_ADDRESSES: [THIRD] })
    const earlier = { ...use, jobsByFacilitator: { [CONTRACT]: 5, [THIRD]: 1 } }
    expect(findProblems(factsOf([accepting, settler], { use: earlier }))).toEqual([])
  })

  it('reports a contract that lists no key of the settlers, and workers that do not know it', () => {
    expect(findProblems(factsOf([api, settler], { listedKeys: { [CONTRACT]: [THIRD] } }))).toEqual([
      `${CONTRACT} lists none of the settlers' keys, so that no payment for it can be settled`,
    ])
    expect(findProblems(factsOf([api, SETTLER]))).toEqual([
      `1 of 1 workers do not have the SETTLEMENT_CONTRACT ${CONTRACT}`,
    ])
  })

  it('shows for each key whether the contract lists it', () => {
    const keys = describeStatus(factsOf([api, settler], { listedKeys: { [CONTRACT]: [] } })).settlementKeys
    expect(keys).toMatchObject([{ address: SECOND, contracts: [{ contract: CONTRACT, isListed: false }] }])
    expect(renderStatus(describeStatus(factsOf([api, settler])))).toContain(`list of ${CONTRACT} not read`)
  })
})

describe('the command line', () => {
  const ENVIRONMENT = { DATABASE_URL: 'postgres://127.0.0.1/farebox' }
  const read = (...args: readonly string[]) => readOptions(args, ENVIRONMENT)

  it('reads a rotation with its author and reason', () => {
    expect(read('rotate', 'pay-to', FIRST, '--reason', 'yearly', '--as', 'ada')).toMatchObject({
      request: { command: 'rotate', kind: 'pay-to', address: FIRST, reason: 'yearly' },
      author: { operator: 'ada', source: 'command' },
    })
    expect(read('--help')).toBeNull()
  })

  it.each([
    [['rotate'], 'needs one of settlement'],
    [['rotate', 'everything'], 'needs one of settlement'],
    [['rotate', 'challenge'], '--reason'],
    [['rotate', 'challenge', 'mine', '--reason', 'x'], 'too much'],
    [['rotate', 'challenge', '--replaces', FIRST, '--reason', 'x'], 'only for settlement keys'],
    [['rotate', 'pay-to', '--reason', 'x'], 'is missing'],
    [['rotate', 'pay-to', '0x1', '--reason', 'x'], 'must be an address'],
    [['rotate', 'pay-to', `0x${'0'.repeat(39)}1`, '--reason', 'x'], 'is a sample'],
    [['rotate', 'pay-to', '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02914', '--reason', 'x'], 'checksum'],
    [['status', 'challenge'], 'status takes no argument'],
    [['drop'], 'status or rotate'],
    [['status', '--as', 'Not A Name'], '--as'],
  ])('refuses the arguments %j', (args, message) => {
    expect(() => readOptions(args, ENVIRONMENT)).toThrow(message)
  })

  it('refuses to run without a database', () => {
    expect(() => readOptions(['status'], {})).toThrow('DATABASE_URL is not set')
  })
})
