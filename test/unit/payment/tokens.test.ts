import { createPublicKey, randomUUID, verify } from 'node:crypto'
import fc from 'fast-check'
import { encodeAbiParameters, encodeEventTopics, type Log, numberToHex, pad } from 'viem'
import { describe, expect, it } from 'vitest'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { settlementContractAbi, USDC_ADDRESS, usdcAbi } from '#shared/chain/network/contracts.ts'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import type { LeasedJob, SealedResult } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { operationById } from '#shared/operations/registry.ts'
import {
  type ChallengeClaims,
  isChallengeForKey,
  openChallengeToken,
  sealChallengeToken,
} from '#shared/payment/challenge-token.ts'
import { opensReceipt, type Receipt, receiptToken } from '#shared/payment/receipt.ts'
import { createStatementSigner } from '#shared/payment/statement-signer.ts'
import { type ChargedReceipt, checkCharge, checkMaximum } from '../../../packages/receipts/check-charge.ts'
import { findPayments } from '../../../packages/receipts/find-payments.ts'
import { buildReceipt } from '../../../workers/settlement/finish-settlement.ts'

const id = randomUUID()
const SECRET = 'a secret of the tests'
const SECRETS = [SECRET] as const
const claims: ChallengeClaims = {
  idempotencyKey: 'key-canary',
  requestDigest: 'd'.repeat(64),
  quotedMaximum: atomicAmount(5034n),
  expiresAt: new Date('2026-01-02T03:04:05.678Z'),
}
const token = sealChallengeToken(claims, SECRETS)
function jsonOf(sealed: string): string {
  return Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString()
}
const ORIGIN = 'https://farebox.example'
const statement = { price: '12', about: { b: 1, a: 'x' } }
function isGenuine(jws: string, jwk: object, payload?: string): boolean {
  const [head = '', body = '', signature = ''] = jws.split('.')
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' })
  return verify(null, Buffer.from(`${head}.${payload ?? body}`), key, Buffer.from(signature, 'base64url'))
}
const headerOf = (jws: string) => JSON.parse(Buffer.from(jws.split('.')[0] ?? '', 'base64url').toString()) as unknown
const ADDRESS = `0x${'1'.repeat(40)}`
/** Returns the receipt of a call that used `usage`. */
function receiptOf(operationId: string, body: object, usage: Record<string, number>): Receipt {
  const operation = operationById(operationId)
  const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null, publishedCatalog)
  const { terms, quotedMaximum, catalogVersion } = operation.quote(effective, publishedCatalog)
  const chargeAmount = atomicAmount(operation.charge(usage, terms))
  const job = {
    operation: operationId,
    publicModel: operation.publicModel(effective),
    terms,
    quotedMaximum,
    catalogVersion,
    requestDigest: 'request',
    acceptedAt: new Date(),
    authorization: {
      payer: ADDRESS,
      payTo: ADDRESS,
      network: 'eip155:8453',
      asset: ADDRESS,
      authorizedMaximum: quotedMaximum,
    },
  } as unknown as LeasedJob
  const sealed = { usage, chargeAmount, resultDigest: 'result' } as unknown as SealedResult
  const settledAt = new Date()
  return buildReceipt(job, sealed, { hash: '0x', blockNumber: 1n, settledAt, issuedAt: settledAt })
}
const chat = (content: string, max_tokens: number, model = 'textmodel-2.5-pro') =>
  receiptOf(
    'createChatCompletion',
    { model, max_tokens, messages: [{ role: 'user', content }] },
    { input_tokens: 20, output_tokens: 5 },
  )
const speech = (input: string) =>
  receiptOf('createSpeech', { model: 'speechvendor/flash-v2.5', input }, { input_characters: input.length })
const outcomes = (receipt: unknown) =>
  Object.fromEntries(
    [checkMaximum, checkCharge]
      .flatMap((check) => check(receipt as ChargedReceipt))
      .map((one) => [one.check, one.outcome]),
  )
const withQuantities = (receipt: Receipt) => ({
  ...receipt,
  unit_prices: { ...receipt.unit_prices, maximum_input_tokens: 293, maximum_output_tokens: 100 },
})
const address = (digit: string) => `0x${digit.repeat(40)}` as const
const [CONTRACT, OTHER_CONTRACT, PAYER, OTHER_PAYER, PAY_TO] = ['c', 'd', 'a', '9', 'b'].map(address) as [
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
  `0x${string}`,
]
const RECEIPT = { asset: USDC_ADDRESS, payer: PAYER, pay_to: PAY_TO }
type Event = Pick<Log, 'address' | 'topics' | 'data'>
const transfer = (value: bigint, from = PAYER, to = PAY_TO, token: `0x${string}` = USDC_ADDRESS): Event => ({
  address: token,
  topics: encodeEventTopics({ abi: usdcAbi, eventName: 'Transfer', args: { from, to } }) as Event['topics'],
  data: pad(numberToHex(value)),
})
const settled = (payer = PAYER, from = CONTRACT): Event => ({
  address: from,
  topics: encodeEventTopics({
    abi: settlementContractAbi,
    eventName: 'PaymentSettled',
    args: { payer },
  }) as Event['topics'],
  data: encodeAbiParameters([{ type: 'uint256' }, { type: 'uint256' }], [7n, 90_000n]),
})
const failed = (payer = PAYER, from = CONTRACT): Event => ({
  address: from,
  topics: encodeEventTopics({
    abi: settlementContractAbi,
    eventName: 'PaymentFailed',
    args: { payer },
  }) as Event['topics'],
  data: encodeAbiParameters(
    [{ type: 'uint256' }, { type: 'uint256' }, { type: 'bytes4' }],
    [7n, 90_000n, '0x00000000'],
  ),
})
const paymentsOf = (events: readonly Event[]) =>
  findPayments(
    RECEIPT,
    CONTRACT,
    events.map((event, logIndex) => ({ ...event, logIndex: logIndex + 3 })),
  )

describe('a receipt token', () => {
  const older = { id: 'older', secret: 'o'.repeat(32) }
  const newer = { id: 'newer', secret: 'n'.repeat(32) }

  it('a receipt token opens its receipt', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [newer])).toBe(true)
  })

  it('a receipt token stays valid after a rotation only while its secret is listed', () => {
    const token = receiptToken(id, older)
    expect(opensReceipt(token, id, [newer, older])).toBe(true)
    expect(opensReceipt(token, id, [newer])).toBe(false)
    expect(opensReceipt(token, id, [])).toBe(false)
  })

  it('a receipt token is the same at every derivation, so replays return the same token', () => {
    expect(receiptToken(id, newer)).toBe(receiptToken(id, { ...newer }))
  })

  it('a receipt token consists of the secret’s name, a period and 43 Base64url characters', () => {
    for (let time = 0; time < 50; time += 1) expect(receiptToken(randomUUID(), newer)).toMatch(/^newer\.[\w-]{43}$/)
  })

  it('a receipt token does not open another receipt [spec R24]', () => {
    expect(opensReceipt(receiptToken(id, newer), randomUUID(), [newer])).toBe(false)
  })

  it('a receipt token opens nothing after a change or removal of any character', () => {
    const token = receiptToken(id, newer)
    for (let index = 0; index < token.length; index += 1) {
      const changed = token[index] === 'A' ? 'B' : 'A'
      for (const variant of [token.slice(0, index) + changed + token.slice(index + 1), token.slice(0, index)])
        expect([variant, opensReceipt(variant, id, [newer, older])]).toEqual([variant, false])
    }
    for (const variant of ['', ' ', `${token} `, `${token}=`, 'é'.repeat(token.length)])
      expect(opensReceipt(variant, id, [newer])).toBe(false)
  })

  it('a receipt token opens nothing under a secret with the same value and another name', () => {
    expect(opensReceipt(receiptToken(id, newer), id, [{ ...newer, id: 'third' }])).toBe(false)
  })

  it('a receipt token is not the plain HMAC of the id, which another use of the secret might publish', () => {
    expect(receiptToken(id, newer)).not.toBe(receiptToken(`farebox receipt\0${id}`, newer))
  })
})

describe('a challenge token', () => {
  it('a challenge token opens with its claims for its key and request', () => {
    expect(openChallengeToken(token, claims, SECRETS)).toEqual({
      outcome: 'genuine',
      quotedMaximum: 5034n,
      matchesRequest: true,
      expiresAt: new Date('2026-01-02T03:04:05Z'),
      tokenSha256: sha256Hex(token),
    })
  })

  it('a challenge token opens for any key, digest and amount', () => {
    const amount = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
    fc.assert(
      fc.property(fc.string(), fc.string(), amount, (idempotencyKey, requestDigest, maximum) => {
        const issued = { ...claims, idempotencyKey, requestDigest, quotedMaximum: atomicAmount(maximum) }
        expect(openChallengeToken(sealChallengeToken(issued, SECRETS), issued, SECRETS)).toMatchObject({
          quotedMaximum: maximum,
          matchesRequest: true,
        })
      }),
    )
  })

  it('every issued challenge token differs by 128 random bits', () => {
    const tokens = new Set(Array.from({ length: 100 }, () => sealChallengeToken(claims, SECRETS)))
    expect(tokens.size).toBe(100)
    for (const issued of tokens) {
      const [, random = ''] = /^\{"r":"([^"]+)"/.exec(jsonOf(issued)) ?? []
      expect(Buffer.from(random, 'base64url')).toHaveLength(16)
    }
  })

  it('a challenge token counts as forged after a change, removal or insertion of any character', () => {
    for (let index = 0; index < token.length; index += 1) {
      const changed = token[index] === 'A' ? 'B' : 'A'
      const variants = [
        token.slice(0, index) + changed + token.slice(index + 1),
        token.slice(0, index) + token.slice(index + 1),
        `${token.slice(0, index)}A${token.slice(index)}`,
      ]
      for (const variant of variants.filter((other) => other !== token))
        expect([variant, openChallengeToken(variant, claims, SECRETS)]).toEqual([variant, { outcome: 'forged' }])
    }
  })

  it('a challenge token counts as forged in another encoding of the same bytes', () => {
    for (const variant of [`${token}=`, `${token} `, token.toUpperCase(), `.${token}`, `${token}.`, `${token}.x`])
      expect(openChallengeToken(variant, claims, SECRETS)).toEqual({ outcome: 'forged' })
  })

  it('a challenge token counts as forged under another secret', () => {
    expect(openChallengeToken(token, claims, [`${SECRET}.`])).toEqual({ outcome: 'forged' })
  })

  it('a challenge token opens under any listed secret, and is issued under the first one', () => {
    expect(openChallengeToken(token, claims, ['the next secret', SECRET])).toMatchObject({ outcome: 'genuine' })
    const next = sealChallengeToken(claims, ['the next secret', SECRET])
    expect(openChallengeToken(next, claims, SECRETS)).toEqual({ outcome: 'forged' })
    expect(openChallengeToken(next, claims, [SECRET, 'the next secret'])).toMatchObject({ outcome: 'genuine' })
    expect(isChallengeForKey(next, claims.idempotencyKey, [SECRET, 'the next secret'])).toBe(true)
    expect(isChallengeForKey(next, claims.idempotencyKey, SECRETS)).toBe(false)
  })

  it('a challenge token does not match another key or another request', () => {
    const others = [
      { ...claims, idempotencyKey: 'key-canary2' },
      { ...claims, requestDigest: 'e'.repeat(64) },
    ]
    for (const other of others)
      expect(openChallengeToken(token, other, SECRETS)).toMatchObject({ outcome: 'genuine', matchesRequest: false })
  })

  it('a challenge token does not contain the idempotency key, which is a capability', () => {
    expect(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).not.toContain('canary')
  })

  it('any other input counts as a forged challenge token, without throwing', () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(openChallengeToken(value, claims, SECRETS)).toEqual({ outcome: 'forged' })
      }),
    )
    fc.assert(
      fc.property(fc.base64String(), fc.base64String(), (body, tag) => {
        expect(openChallengeToken(`${body}.${tag}`, claims, SECRETS)).toEqual({ outcome: 'forged' })
      }),
    )
  })
})

describe('the signer of statements', () => {
  const [older, newer] = [
    { id: 'k1', seed: '11'.repeat(32) },
    { id: 'k2', seed: '22'.repeat(32) },
  ]
  describe('signing a statement', () => {
    it('signs the canonical JSON of a statement with the published key', () => {
      const signer = createStatementSigner(ORIGIN, [older])
      const jws = signer.sign(statement)
      expect(headerOf(jws)).toEqual({ alg: 'EdDSA', kid: 'did:web:farebox.example#k1' })
      expect(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString()).toBe(
        '{"about":{"a":"x","b":1},"price":"12"}',
      )
      expect(isGenuine(jws, signer.publicKeys[0]?.jwk ?? {})).toBe(true)
    })

    it('creates the same signature on every process for any order of fields', () => {
      const [one, other] = [createStatementSigner(ORIGIN, [older]), createStatementSigner(ORIGIN, [older])]
      expect(other.sign({ about: { a: 'x', b: 1 }, price: '12' })).toBe(one.sign(statement))
      expect(other.signDetached(statement, 'type')).toBe(one.signDetached(statement, 'type'))
    })

    it('creates a detached signature that names the kind of statement', () => {
      const signer = createStatementSigner(ORIGIN, [older])
      const detached = signer.signDetached(statement, 'farebox-receipt')
      const payload = signer.sign(statement).split('.')[1] ?? ''
      expect(headerOf(detached)).toMatchObject({ typ: 'farebox-receipt' })
      expect(detached.split('.')[1]).toBe('')
      expect(isGenuine(detached, signer.publicKeys[0]?.jwk ?? {}, payload)).toBe(true)
      const other = Buffer.from('{"price":"13"}').toString('base64url')
      expect(isGenuine(detached, signer.publicKeys[0]?.jwk ?? {}, other)).toBe(false)
    })
  })

  describe('rotating keys', () => {
    const [before, after] = [createStatementSigner(ORIGIN, [older]), createStatementSigner(ORIGIN, [newer, older])]

    it('signs with the newest key after a rotation', () => {
      expect(headerOf(after.sign(statement))).toMatchObject({ kid: 'did:web:farebox.example#k2' })
    })

    it('publishes both keys after a rotation, so older statements still verify', () => {
      expect(after.publicKeys.map(({ kid }) => kid)).toEqual([
        'did:web:farebox.example#k2',
        'did:web:farebox.example#k1',
      ])
      expect(isGenuine(before.sign(statement), after.publicKeys[1]?.jwk ?? {})).toBe(true)
      expect(isGenuine(before.sign(statement), after.publicKeys[0]?.jwk ?? {})).toBe(false)
    })
  })

  it.each([
    ['https://farebox.example/', 'did:web:farebox.example'],
    ['https://farebox.example:8443', 'did:web:farebox.example%3A8443'],
    ['http://127.0.0.1:8402', 'did:web:127.0.0.1%3A8402'],
  ])('derives for the origin %s the DID %s', (origin, did) => {
    expect(createStatementSigner(origin, [older]).did).toBe(did)
  })

  it('throws without a key', () => {
    expect(() => createStatementSigner(ORIGIN, [])).toThrow('no signing key')
  })

  it('derives the public key that RFC 8032 states for a seed', () => {
    // Section 7.1, test 1.
    const seed = '9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60'
    const [key] = createStatementSigner(ORIGIN, [{ id: 'k1', seed }]).publicKeys
    expect(Buffer.from(key?.jwk.x ?? '', 'base64url').toString('hex')).toBe(
      'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    )
  })
})

describe('the price version of a receipt', () => {
  it('is the same for all requests under equal prices, and another under other prices [spec O41]', () => {
    expect(chat('Hello', 100).price_version).toBe(chat('Where does the last tram go?', 4000).price_version)
    expect(speech('Mind the gap.').price_version).toBe(speech('Mind the step, please.').price_version)
    expect(chat('Hello', 100, 'textmodel-2.5-flash').price_version).not.toBe(chat('Hello', 100).price_version)
  })

  it('the unit prices of a receipt are prices and bounds only; what a request could use at most is in the calculation', () => {
    const { unit_prices, calculation } = chat('Hello', 100)
    expect(unit_prices).toEqual({
      input_per_million_tokens_usd: '1.25',
      cached_input_per_million_tokens_usd: '0.125',
      output_per_million_tokens_usd: '10.00',
      minimum_charge_usd: '0.002',
      maximum_charge_usd: '0.766952',
    })
    expect(calculation?.lines.map(({ usage, at_most }) => [usage, at_most])).toEqual([
      ['cached_input_tokens', 293],
      ['uncached_input_tokens', 293],
      ['cache_write_tokens', 273],
      ['output_tokens', 100],
    ])
  })
})

describe('the charge of a receipt, recomputed by the payer', () => {
  const passed = { calculation: 'passed', charge: 'passed', maximum: 'passed' }
  it.each([
    ['text', chat('Hello', 100)],
    ['speech', speech('Mind the gap, and mind the step.')],
  ])('passes for %s', (_, receipt) => {
    expect(outcomes(receipt)).toEqual(passed)
  })

  it('passes for a receipt of an earlier version, whose unit prices also have the quantities of the request', () => {
    expect(outcomes(withQuantities(chat('Hello', 100)))).toEqual(passed)
    const { calculation: _, ...first } = withQuantities(chat('Hello', 100))
    expect(outcomes(first)).toEqual({ ...passed, calculation: 'skipped' })
  })

  it('cannot be recomputed when nothing states the maximum quantity', () => {
    const { calculation: _, ...without } = chat('Hello', 100)
    expect(outcomes(without)).toEqual({ charge: 'failed', maximum: 'passed' })
  })
})

describe('the payments of a receipt’s payer in a transaction', () => {
  it.each<[string, readonly Event[], readonly (readonly bigint[])[], number | null]>([
    ['none without events', [], [[]], null],
    ['one that a key settled by itself', [transfer(5n)], [[5n]], null],
    ['both transfers of one payment', [transfer(5n), transfer(5n)], [[5n, 5n]], null],
    ['one alone in a batch', [transfer(5n), settled()], [[5n]], 1],
    ['two of equal amounts, told apart', [transfer(5n), settled(), transfer(5n), settled()], [[5n], [5n]], 2],
    ['two transfers of one payment', [transfer(5n), transfer(5n), settled(), settled()], [[5n, 5n]], 2],
    [
      'none of others',
      [transfer(5n, OTHER_PAYER), settled(OTHER_PAYER), transfer(5n, PAYER, OTHER_PAYER), settled()],
      [],
      2,
    ],
    ['none in another token', [transfer(5n, PAYER, PAY_TO, OTHER_CONTRACT), settled()], [], 1],
    ['none that failed', [transfer(5n), failed(), transfer(6n), settled()], [[6n]], 2],
    ['none that the contract reports for another payer', [transfer(5n), settled(OTHER_PAYER)], [], 1],
    ['none after the last report', [settled(), transfer(5n)], [], 1],
    [
      'all when another contract reports',
      [transfer(5n), settled(PAYER, OTHER_CONTRACT), transfer(5n)],
      [[5n, 5n]],
      null,
    ],
  ])('%s', (_, events, payments, batchSize) => {
    expect(paymentsOf(events)).toEqual({ payments, batchSize })
  })
})
