import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { operations } from '#shared/operations/registry.ts'
import { storedAuthorization, storedAuthorizationSchema } from '#shared/payment/authorization.ts'
import { sealChallengeToken } from '#shared/payment/challenge-token.ts'
import { SIGNING_TERMS } from '#shared/payment/payment-terms.ts'
import { openPaymentHeader, type SignedPayment } from '#shared/payment/x402-wire.ts'
import { readAuthorization, type SignatureContext } from '../../../api/paid-request/pay/read-authorization.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'

const address = (digit: string) => `0x${digit.repeat(40)}`
const SIGNATURE = `0x${'ab'.repeat(64)}1b`
function payment() {
  return {
    x402Version: 2,
    resource: { url: 'https://example.test/v1/audio/transcriptions' },
    accepted: {
      scheme: 'upto',
      network: 'eip155:8453',
      amount: '5034',
      asset: address('a'),
      payTo: address('b'),
      maxTimeoutSeconds: 600,
      extra: { challenge: 'token' },
    },
    payload: {
      signature: SIGNATURE,
      permit2Authorization: {
        from: address('C'),
        permitted: { token: address('a'), amount: '5034' },
        spender: address('d'),
        nonce: '7',
        deadline: '1900000000',
        witness: { to: address('b'), facilitator: address('e'), validAfter: '0' },
      },
    },
    extensions: { eip2612GasSponsoring: { info: permit() } } as Record<string, unknown>,
  }
}
function permit(): Record<string, unknown> {
  return {
    from: address('C'),
    asset: address('a'),
    spender: address('f'),
    amount: '5034',
    nonce: '0',
    deadline: '1900000000',
    signature: SIGNATURE,
    version: '1',
  }
}
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const decode = (value: unknown) => openPaymentHeader(encode(value)).decoded
function authorization(value: unknown = payment()) {
  const decoded = decode(value)
  if (decoded.outcome !== 'decoded') throw new Error(JSON.stringify(decoded))
  return decoded.payment.authorization
}
/** Returns the path of every value inside a JSON value. */
function places(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([key, member]) => places(member, [...path, key]))]
}
function withValueAt(value: unknown, [key, ...rest]: readonly string[], replacement: unknown): unknown {
  if (key === undefined) return replacement
  const object = value as Record<string, unknown>
  return { ...object, [key]: withValueAt(object[key], rest, replacement) }
}
const AUTHORIZATION = testAuthorization()
const { network, asset, payTo, spender, facilitator, authorizedMaximum } = AUTHORIZATION
const [OTHER_RECIPIENT, OTHER_FACILITATOR, FORMER_FACILITATOR, STRANGER] = [
  `0x${'c3'.repeat(20)}`,
  `0x${'d4'.repeat(20)}`,
  `0x${'e5'.repeat(20)}`,
  `0x${'f6'.repeat(20)}`,
] as const
const [OLD_SECRET, NEW_SECRET] = ['the secret before', 'the secret afterwards']
const [operation] = operations
if (!operation) throw new Error('there is no operation')
const SUBJECT = { operation, idempotencyKey: 'a key', requestDigest: 'd'.repeat(64) }
const DEPENDENCIES = {
  terms: {
    network,
    asset,
    spender,
    payTo,
    acceptedRecipients: [payTo, OTHER_RECIPIENT],
    facilitators: [facilitator],
    acceptedFacilitators: [facilitator, OTHER_FACILITATOR, FORMER_FACILITATOR],
    formerFacilitators: [FORMER_FACILITATOR],
    maxTimeoutSeconds: 900,
  } as unknown as SignatureContext['terms'],
  publicBaseUrl: 'https://farebox.example',
  challengeSecrets: [NEW_SECRET, OLD_SECRET],
  verifier: { isSignedByPayer: () => 'key' } as unknown as SignatureContext['verifier'],
} satisfies SignatureContext
interface Changes {
  readonly signedFor?: `0x${string}`
  readonly acceptedFor?: `0x${string}`
  readonly facilitator?: `0x${string}`
  readonly secret?: string
}
/** Reads a payment that answers a challenge of this service but for the changes. */
function read({ signedFor = payTo, acceptedFor = signedFor, secret = NEW_SECRET, ...changes }: Changes = {}) {
  const claims = { ...SUBJECT, quotedMaximum: authorizedMaximum, expiresAt: new Date(Date.now() + 60_000) }
  const payment = {
    accepted: {
      scheme: 'upto',
      network,
      asset,
      payTo: acceptedFor,
      amount: authorizedMaximum.toString(),
      maxTimeoutSeconds: 900,
      extra: {
        ...SIGNING_TERMS,
        challenge: sealChallengeToken(claims, [secret]),
        expiresAt: claims.expiresAt.toISOString(),
        facilitatorAddress: changes.facilitator ?? facilitator,
      },
    },
    authorization: {
      ...AUTHORIZATION,
      payTo: signedFor,
      facilitator: changes.facilitator ?? facilitator,
      gasSponsoring: null,
    },
    resourceUrl: null,
    isWrapped: false,
  } satisfies SignedPayment
  return readAuthorization(DEPENDENCIES, { decoded: { outcome: 'decoded', payment } } as never, SUBJECT)
}

describe('decoding PAYMENT-SIGNATURE [spec O14]', () => {
  it('decodes a payment with exact numbers and lower-case addresses', () => {
    expect(authorization()).toMatchObject({
      network: 'eip155:8453',
      payer: address('c'),
      payTo: address('b'),
      facilitator: address('e'),
      spender: address('d'),
      authorizedMaximum: 5034n,
      nonce: 7n,
      deadline: 1_900_000_000n,
      validAfter: 0n,
      gasSponsoring: { from: address('c'), spender: address('f'), amount: 5034n, nonce: 0n },
    })
  })

  it('never throws for any header', () => {
    const known = new Set(['malformed', 'other_scheme', 'decoded'])
    fc.assert(fc.property(fc.string(), (header) => known.has(openPaymentHeader(header).decoded.outcome)))
    // fast-check's own unit of this kind takes most of a second to create.
    const codePoint = fc.integer({ min: 0, max: 0x10_ff_ff }).map((value) => String.fromCodePoint(value))
    fc.assert(
      fc.property(fc.string({ unit: codePoint }), (header) => known.has(openPaymentHeader(header).decoded.outcome)),
    )
    fc.assert(fc.property(fc.base64String(), (header) => known.has(openPaymentHeader(header).decoded.outcome)))
    fc.assert(
      fc.property(fc.json(), (json) => known.has(decode(JSON.parse(json)).outcome)),
      { numRuns: 500 },
    )
  })

  it('never throws or accepts junk as an amount when any value is replaced by any other', () => {
    const original = payment()
    fc.assert(
      fc.property(fc.constantFrom(...places(original)), fc.jsonValue(), (path, junk) => {
        const decoded = decode(withValueAt(original, path, junk))
        if (decoded.outcome !== 'decoded') return
        const read = decoded.payment.authorization
        for (const value of [read.authorizedMaximum, read.nonce, read.deadline, read.validAfter])
          expect(typeof value).toBe('bigint')
        expect(storedAuthorizationSchema.parse(JSON.parse(storedAuthorization(read)))).toEqual(read)
      }),
      { numRuns: 2000 },
    )
  })

  it('returns a reason that does not quote the input', () => {
    const malformed = withValueAt(payment(), ['payload', 'permit2Authorization', 'nonce'], 'canary')
    const decoded = decode(malformed)
    expect(decoded).toMatchObject({
      outcome: 'malformed',
      reason: expect.stringContaining('permit2Authorization.nonce'),
    })
    expect(JSON.stringify(decoded)).not.toContain('canary')
  })

  it('accepts only standard Base64 of JSON', () => {
    const header = encode(payment())
    const others = [
      '',
      ' ',
      `${header} `,
      `${header}\n`,
      header.replace(/./, '-'),
      `data:,${header}`,
      encode('').slice(1),
    ]
    for (const other of others) expect(openPaymentHeader(other).decoded).toMatchObject({ outcome: 'malformed' })
  })

  it.each(['1', '0x10', '-1', '1e3', '01', '', '1.0', ' 7'].slice(1))('does not accept %j as a number', (text) => {
    const numbers = [
      ['payload', 'permit2Authorization', 'nonce'],
      ['payload', 'permit2Authorization', 'deadline'],
      ['payload', 'permit2Authorization', 'permitted', 'amount'],
      ['payload', 'permit2Authorization', 'witness', 'validAfter'],
      ['extensions', 'eip2612GasSponsoring', 'info', 'amount'],
    ]
    for (const path of numbers)
      expect(decode(withValueAt(payment(), path, text))).toMatchObject({ outcome: 'malformed' })
  })

  it('accepts the largest 256-bit number but not the next one', () => {
    const nonce = ['payload', 'permit2Authorization', 'nonce']
    expect(authorization(withValueAt(payment(), nonce, String(2n ** 256n - 1n))).nonce).toBe(2n ** 256n - 1n)
    expect(decode(withValueAt(payment(), nonce, String(2n ** 256n)))).toMatchObject({ outcome: 'malformed' })
  })

  it.each<[string, (text: string) => string | Buffer]>([
    ['a repeated key', (text) => text.replace('"nonce":', '"nonce":"1","nonce":')],
    ['a repeated key with an escape sequence', (text) => text.replace('"nonce":', '"\\u006eonce":"1","nonce":')],
    ['__proto__ in an open object', (text) => text.replace('"extra":{', '"extra":{"__proto__":{},')],
    ['__proto__ with an escape sequence', (text) => text.replace('"extra":{', '"extra":{"\\u005f_proto__":{},')],
    ['deep nesting', (text) => text.replace('"extra":{', `"extra":{"x":${'['.repeat(65)}${']'.repeat(65)},`)],
    ['a byte order mark', (text) => `\ufeff${text}`],
    ['invalid UTF-8', (text) => Buffer.from(text.replace('token', 'tok\u00ffn'), 'latin1')],
  ])('does not accept JSON with %s, which other decoders may read differently', (_, change) => {
    const changed = change(JSON.stringify(payment()))
    expect(openPaymentHeader(Buffer.from(changed as string).toString('base64')).decoded).toMatchObject({
      outcome: 'malformed',
    })
  })

  it.each([
    ['a NUL', 'a\0'],
    ['a lone surrogate', '\ud800'],
    ['half of a pair', '\udc00b'],
  ])('does not accept %s in any text or name, which no ledger can store', (_, text) => {
    const reason = expect.stringContaining('valid Unicode')
    for (const path of places(payment()).filter(([first]) => first !== undefined))
      expect(decode(withValueAt(payment(), path, text))).toMatchObject({ outcome: 'malformed', reason })
    for (const path of [[text], ['accepted', 'extra', text], ['extensions', text]])
      expect(decode(withValueAt(payment(), path, 1))).toMatchObject({ outcome: 'malformed', reason })
    expect(decode(withValueAt(payment(), ['extensions', 'note'], '\ud83d\ude00'))).toMatchObject({
      outcome: 'decoded',
    })
  })

  it('accepts Base64 only in its canonical encoding', () => {
    const header = [' ', '  ', '   ']
      .map((space) => Buffer.from(JSON.stringify(payment()) + space).toString('base64'))
      .find((candidate) => /[^=]=$/.test(candidate))
    if (!header) throw new Error('one of three lengths needs one padding character')
    expect(openPaymentHeader(header).decoded).toMatchObject({ outcome: 'decoded' })
    const last = header.at(-2) ?? ''
    const stray = `${header.slice(0, -2)}${String.fromCodePoint((last.codePointAt(0) ?? 0) + 1)}=`
    for (const encoding of [header.slice(0, -1), `${header}=`, stray])
      expect(openPaymentHeader(encoding).decoded).toMatchObject({ outcome: 'malformed' })
  })

  it('does not accept unknown fields in the signed message', () => {
    const extra = ['payload', 'permit2Authorization', 'extra']
    expect(decode(withValueAt(payment(), extra, 'x'))).toMatchObject({ outcome: 'malformed' })
  })

  it('reports another scheme as such and another version as malformed', () => {
    expect(decode(withValueAt(payment(), ['accepted', 'scheme'], 'exact'))).toEqual({
      outcome: 'other_scheme',
      scheme: 'exact',
    })
    expect(decode(withValueAt(payment(), ['x402Version'], 1))).toMatchObject({ outcome: 'malformed' })
  })

  it.each([
    [
      'an EIP-3009 transfer under the name of upto',
      ['payload'],
      { signature: SIGNATURE, authorization: { from: address('c'), to: address('b'), value: '5034', nonce: '0x00' } },
      'a transfer of the whole maximum (EIP-3009) was signed',
    ],
    [
      'the Permit2 authorization of another scheme',
      ['payload', 'permit2Authorization', 'witness'],
      { to: address('b'), validAfter: '0' },
      'a Permit2 authorization of scheme "exact" was signed',
    ],
    ['a transaction of another chain', ['payload'], { transaction: 'AQAB' }, 'a whole transaction was signed'],
    ['a payment of version 1', ['x402Version'], 1, 'a payment of x402Version 1 was signed'],
  ])('names %s, and the two lines of a client that can pay', (_, path, value, signed) => {
    const decoded = decode(withValueAt(payment(), path, value))
    expect(decoded).toMatchObject({ outcome: 'malformed', reason: expect.stringContaining(signed) })
    const reason = decoded.outcome === 'malformed' ? decoded.reason : ''
    expect(reason).toContain('takes a Permit2 authorization of scheme "upto"; nothing was submitted')
    expect(reason).toContain("import { UptoEvmScheme } from '@x402/evm/upto/client'")
    expect(reason).toContain("client.register('eip155:8453', new UptoEvmScheme(account, { rpcUrl }))")
  })

  it('treats an echoed gas-sponsoring declaration as no permit and rejects an incomplete permit', () => {
    const echoed = withValueAt(payment(), ['extensions', 'eip2612GasSponsoring'], {
      info: { description: 'x' },
      schema: {},
    })
    expect(authorization(echoed).gasSponsoring).toBeNull()
    expect(authorization(withValueAt(payment(), ['extensions'], {})).gasSponsoring).toBeNull()
    const half = { info: { signature: SIGNATURE } }
    expect(decode(withValueAt(payment(), ['extensions', 'eip2612GasSponsoring'], half))).toMatchObject({
      outcome: 'malformed',
    })
  })
})

describe('storing an authorization', () => {
  it('parses a stored authorization exactly, with and without a permit', () => {
    for (const value of [authorization(), { ...authorization(), gasSponsoring: null }])
      expect(storedAuthorizationSchema.parse(JSON.parse(storedAuthorization(value)))).toEqual(value)
  })

  it('stores numbers of any size', () => {
    const number = fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })
    fc.assert(
      fc.property(number, number, (nonce, deadline) => {
        const value = { ...authorization(), nonce, deadline }
        expect(storedAuthorizationSchema.parse(JSON.parse(storedAuthorization(value)))).toEqual(value)
      }),
    )
  })

  it('does not store unknown fields of a permit', () => {
    const extended = withValueAt(payment(), ['extensions', 'eip2612GasSponsoring', 'info', 'note'], 'canary')
    expect(storedAuthorization(authorization(extended))).not.toContain('canary')
  })
})

describe('while a key is replaced', () => {
  it('accepts payments that were signed for either recipient, and for no other', () => {
    expect(read().authorization.payTo).toBe(payTo)
    expect(read({ signedFor: OTHER_RECIPIENT }).authorization.payTo).toBe(OTHER_RECIPIENT)
    expect(() => read({ signedFor: STRANGER })).toThrow(expect.objectContaining({ code: 'payment_recipient_mismatch' }))
  })

  it('refuses a payment whose signed recipient is not the one that it repeats from the challenge', () => {
    for (const [signedFor, acceptedFor] of [
      [payTo, OTHER_RECIPIENT],
      [OTHER_RECIPIENT, payTo],
      [payTo, STRANGER],
    ] as const)
      expect(() => read({ signedFor, acceptedFor })).toThrow(
        expect.objectContaining({ code: 'payment_recipient_mismatch' }),
      )
  })

  it('accepts payments for a settlement key that no challenge names, and for no unknown one', () => {
    expect(read({ facilitator: OTHER_FACILITATOR }).authorization.facilitator).toBe(OTHER_FACILITATOR)
    expect(() => read({ facilitator: STRANGER })).toThrow(
      expect.objectContaining({ code: 'payment_facilitator_mismatch' }),
    )
  })

  it('serves an earlier call that named a key beside a contract, but accepts no new one for it', () => {
    expect(read().alteredTerm).toBeNull()
    const { authorization, alteredTerm } = read({ facilitator: FORMER_FACILITATOR })
    expect(authorization.facilitator).toBe(FORMER_FACILITATOR)
    expect(alteredTerm).toBe('accepted.extra.facilitatorAddress')
  })

  it('accepts payments for challenges under either secret, and under no other', () => {
    expect(read({ secret: OLD_SECRET }).authorization.payTo).toBe(payTo)
    expect(() => read({ secret: 'a forged secret' })).toThrow(
      expect.objectContaining({ code: 'payment_terms_mismatch' }),
    )
  })
})
