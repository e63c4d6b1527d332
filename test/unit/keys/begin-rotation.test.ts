import { describe, expect, it } from 'vitest'
import { keyFingerprint, namedFingerprint } from '#shared/operators/key-fingerprint.ts'
import { beginRotation } from '../../../infra/keys/begin-rotation.ts'
import { findProblems } from '../../../infra/keys/find-problems.ts'
import { type KeysCommand, readOptions } from '../../../infra/keys/read-options.ts'
import { describeStatus, renderStatus } from '../../../infra/keys/render-status.ts'
import { factsOf, type Keys, NOW, processWith } from './key-facts.ts'

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
