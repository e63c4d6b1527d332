import { expect, it } from 'vitest'
import { findKeyProblems, type KeySetting, type KeyUse } from '#shared/operators/key-problems.ts'
import type { SeenProcess } from '#shared/operators/process-report.ts'

type Keys = Partial<Record<KeySetting, readonly string[]>>

const [FIRST, SECOND, CONTRACT] = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`, `0x${'c'.repeat(40)}`]
const moment = new Date()
const seen = (kind: SeenProcess['kind'], instance: string, keys: Keys): SeenProcess => ({
  kind,
  instance,
  startedAt: moment,
  seenAt: moment,
  isRunning: true,
  report: { version: '1', configurationRevision: '1', keys },
})

const API: Keys = {
  PAY_TO: ['0xold'],
  FACILITATOR_ADDRESSES: [FIRST],
  CHALLENGE_SECRET: ['old'],
  RECEIPT_SECRETS: ['k1:aa'],
  RECEIPT_SIGNING_KEY: ['k1:bb'],
}
const SETTLER: Keys = { SETTLEMENT_PRIVATE_KEYS: [FIRST], RECEIPT_SECRET_ID: ['k1'] }
const pair = (one: Keys, other: Keys) => [
  seen('api', 'api-1', { ...API, ...one }),
  seen('api', 'api-2', { ...API, ...other }),
]
const settler = (keys: Keys = {}) => seen('worker', 'settler', { ...SETTLER, ...keys })
const needed = (facilitator: string, jobs: number, transactions: number): KeyUse => ({
  facilitator,
  jobs,
  transactions,
})

it.each<[string, readonly SeenProcess[], readonly KeyUse[]]>([
  ['nothing runs', [], []],
  ['all have the same keys', [...pair({}, {}), settler()], [needed(FIRST, 3, 2)]],
  ['a new value is accepted and not used yet', pair({ CHALLENGE_SECRET: ['old', 'new'] }, {}), []],
  ['a new value is used where all accept it', pair({ PAY_TO: ['0xnew', '0xold'] }, { PAY_TO: ['0xold', '0xnew'] }), []],
  [
    'a settlement key is accepted everywhere and asked for by one API',
    [
      ...pair(
        { FACILITATOR_ADDRESSES: [SECOND], ACCEPTED_FACILITATOR_ADDRESSES: [FIRST] },
        { ACCEPTED_FACILITATOR_ADDRESSES: [SECOND] },
      ),
      settler({ SETTLEMENT_PRIVATE_KEYS: [FIRST, SECOND] }),
    ],
    [],
  ],
  [
    'the contract is needed, which is no key',
    [
      ...pair({ SETTLEMENT_CONTRACT: [CONTRACT] }, { SETTLEMENT_CONTRACT: [CONTRACT] }),
      settler({ SETTLEMENT_CONTRACT: [CONTRACT] }),
    ],
    [needed(CONTRACT, 5, 0)],
  ],
  ['no settler reports, and a remote facilitator settles', pair({}, {}), [needed(SECOND, 1, 0)]],
])('finds nothing where %s', (_, running, use) => {
  expect(findKeyProblems(running, use)).toEqual([])
})

it.each<[string, readonly SeenProcess[], readonly KeyUse[]]>([
  ['1 of 2 APIs do not accept new of CHALLENGE_SECRET', pair({ CHALLENGE_SECRET: ['new', 'old'] }, {}), []],
  ['1 of 2 APIs do not accept 0xnew of PAY_TO', pair({ PAY_TO: ['0xnew'] }, { PAY_TO: ['0xold', 'other'] }), []],
  ['1 of 2 APIs do not accept k2:cc of RECEIPT_SIGNING_KEY', pair({ RECEIPT_SIGNING_KEY: ['k2:cc', 'k1:bb'] }, {}), []],
  [
    `an API does not accept payments for ${SECOND}, which another one asks for`,
    pair({ FACILITATOR_ADDRESSES: [FIRST, SECOND] }, {}),
    [],
  ],
  [`no settler has the key of ${FIRST}`, [...pair({}, {}), settler({ SETTLEMENT_PRIVATE_KEYS: [SECOND] })], []],
  [
    'no API has the receipt secret k2, which workers use',
    [...pair({}, {}), settler({ RECEIPT_SECRET_ID: ['k2'] })],
    [],
  ],
  [
    `1 of 1 workers do not have the SETTLEMENT_CONTRACT ${CONTRACT}`,
    [...pair({ SETTLEMENT_CONTRACT: [CONTRACT] }, {}), settler()],
    [],
  ],
  [
    `4 calls and 1 transactions need the key of ${SECOND}, which no settler has: bring it back`,
    [...pair({}, {}), settler()],
    [needed(FIRST, 1, 0), needed(SECOND, 4, 1)],
  ],
])('says "%s"', (problem, running, use) => {
  expect(findKeyProblems(running, use)).toContain(problem)
})
