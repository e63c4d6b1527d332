import fc from 'fast-check'
import { type CustomPayment, paymentHeader, type SignedTerms, withValue } from '../../support/payer/custom-payment.ts'

const FAR = 2n ** 256n - 1n

/**
 * The payment of a fuzzed request: a mutated copy of a valid payment, or a payment signed for mutated terms. One that is
 * `unstorable` has text that no ledger can store: it must be refused for its form, before its funds are asked for.
 */
export type PaymentMutation =
  | { readonly kind: 'header' | 'unstorable'; readonly mutate: (payment: CustomPayment) => string }
  | { readonly kind: 'signed'; readonly terms: Partial<SignedTerms>; readonly withPermit: boolean }

/** Arbitrary JSON, and values that are known to break parsers and databases. */
const awkwardValue = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom<unknown>(
    '',
    ' ',
    '0',
    '-0',
    '-1',
    '+1',
    '01',
    '1.0',
    '1e3',
    '1e400',
    '0x10',
    '0X10',
    'NaN',
    'null',
    '__proto__',
    '١',
    '１',
    '\u0000',
    '\ud800',
    '0x',
    `0x${'0'.repeat(40)}`,
    `0X${'a'.repeat(40)}`,
    `0x${'00'.repeat(65)}`,
    FAR.toString(),
    (FAR + 1n).toString(),
    (10n ** 80n).toString(),
    '9'.repeat(1000),
    "'; DROP TABLE jobs; --",
    0,
    -1,
    1.5,
    1e300,
    null,
    true,
    [],
    {},
    [[]],
    { toString: 'x' },
  ),
)

/** Replaces one value somewhere in the JSON of a payment. */
const valueMutation = fc.record({ at: fc.nat(), value: awkwardValue }).map(
  ({ at, value }) =>
    (payment: CustomPayment) =>
      encode(withPlace(payment, at, value)),
)
const removal = fc.nat().map((at) => (payment: CustomPayment) => encode(withPlace(payment, at, undefined)))
const addition = fc
  .record({
    at: fc.nat(),
    name: fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'nonce', 'from')),
    value: awkwardValue,
  })
  .map(
    ({ at, name, value }) =>
      (payment: CustomPayment) =>
        encode(withMember(payment, at, name, value)),
  )

/** Puts NUL or half of a surrogate pair into one of the texts, or the name of a member, wherever it is. */
const unstorable = fc
  .record({
    at: fc.nat(),
    character: fc.constantFrom('\0', '\ud800', '\udbff', '\udc00', '\udfff'),
    place: fc.constantFrom('before', 'within', 'behind', 'alone', 'name'),
  })
  .map(({ at, character, place }) => (payment: CustomPayment) => {
    if (place === 'name') return encode(withMember(payment, at, `a${character}`, 1))
    const copy = structuredClone(payment)
    const texts = placesOf(copy).filter(({ holder, name }) => typeof holder[name] === 'string')
    const { holder, name } = texts[at % texts.length] ?? { holder: copy, name: 'note' }
    const text = String(holder[name])
    const middle = Math.floor(text.length / 2)
    const changed = {
      before: character + text,
      within: text.slice(0, middle) + character + text.slice(middle),
      behind: text + character,
      alone: character,
    }
    holder[name] = changed[place]
    return encode(copy)
  })

/** Changes, removes, repeats or inserts bytes of the JSON text, which is then encoded correctly. */
const textMutation = fc
  .array(
    fc.record({
      at: fc.nat(),
      how: fc.constantFrom('set', 'insert', 'remove', 'cut', 'repeat'),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }),
    }),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map((changes) => (payment: CustomPayment) => {
    let text: Buffer = Buffer.from(JSON.stringify(payment))
    for (const { at, how, bytes } of changes) text = changeBytes(text, at % (text.length + 1), how, bytes)
    return text.toString('base64')
  })

/** Changes the encoded header; only visible ASCII, so that HTTP clients send it. */
const headerMutation = fc
  .record({ at: fc.nat(), how: fc.constantFrom('set', 'insert', 'remove', 'cut', 'repeat'), text: visible(8) })
  .map(({ at, how, text }) => (payment: CustomPayment) => {
    const header = Buffer.from(encode(payment))
    return changeBytes(header, at % (header.length + 1), how, Buffer.from(text)).toString('latin1')
  })

const junk = fc.oneof(
  visible(200),
  fc.base64String({ maxLength: 400 }),
  fc.json().map((json) => Buffer.from(json).toString('base64')),
)

const uint256 = fc.oneof(
  fc.bigInt({ min: 0n, max: FAR }),
  fc.bigInt({ min: 0n, max: 2n ** 64n }),
  fc.constantFrom(0n, 1n, 2n ** 31n, 2n ** 53n, 2n ** 63n, 2n ** 64n, 2n ** 255n, FAR),
)
const address = fc
  .oneof(fc.uint8Array({ minLength: 20, maxLength: 20 }), fc.constant(new Uint8Array(20)))
  .map((bytes) => `0x${Buffer.from(bytes).toString('hex')}` as const)

/** Changes terms to well-formed values, so that only the signature is wrong. */
const forgery = fc
  .oneof(
    fc.record({
      path: fc.constantFrom('permitted.amount', 'nonce', 'deadline', 'witness.validAfter'),
      value: uint256.map(String),
    }),
    fc.record({
      path: fc.constantFrom('from', 'permitted.token', 'spender', 'witness.to', 'witness.facilitator'),
      value: address,
    }),
  )
  .map(({ path, value }) => ({ path: `payload.permit2Authorization.${path}`, value }))
const otherSignature = fc
  .uint8Array({ minLength: 1, maxLength: 200 })
  .map((bytes) => ({ path: 'payload.signature', value: `0x${Buffer.from(bytes).toString('hex')}` }))
const wellFormed = fc.oneof(forgery, otherSignature).map(
  ({ path, value }) =>
    (payment: CustomPayment) =>
      encode(withValue(payment, path, value)),
)

/** Correctly signed terms of which up to two are arbitrary and the others are those of the challenge. */
const signedTerms = fc
  .record({
    terms: fc.record({
      token: address,
      amount: uint256,
      spender: address,
      nonce: uint256,
      deadline: uint256,
      to: address,
      facilitator: address,
      validAfter: uint256,
      payer: address,
    }),
    changed: fc.subarray(
      ['token', 'amount', 'spender', 'nonce', 'deadline', 'to', 'facilitator', 'validAfter', 'payer'] as const,
      { maxLength: 2 },
    ),
  })
  .map(({ terms, changed }): Partial<SignedTerms> => Object.fromEntries(changed.map((name) => [name, terms[name]])))

export const paymentMutation: fc.Arbitrary<PaymentMutation> = fc.oneof(
  ...[valueMutation, wellFormed, removal, addition, textMutation, headerMutation].map((mutation) =>
    mutation.map((mutate): PaymentMutation => ({ kind: 'header', mutate })),
  ),
  unstorable.map((mutate): PaymentMutation => ({ kind: 'unstorable', mutate })),
  junk.map((header): PaymentMutation => ({ kind: 'header', mutate: () => header })),
  fc
    .record({ terms: signedTerms, withPermit: fc.boolean() })
    .map(({ terms, withPermit }): PaymentMutation => ({ kind: 'signed', terms, withPermit })),
)

function visible(maxLength: number): fc.Arbitrary<string> {
  const character = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCodePoint(code))
  return fc.string({ unit: character, minLength: 1, maxLength })
}

function encode(payment: unknown): string {
  return paymentHeader(payment)['payment-signature'] ?? ''
}

/** Returns every object or array in the JSON with each of its members. */
function placesOf(value: unknown): { holder: Record<string, unknown>; name: string }[] {
  if (typeof value !== 'object' || value === null) return []
  const holder = value as Record<string, unknown>
  return Object.keys(holder).flatMap((name) => [{ holder, name }, ...placesOf(holder[name])])
}

function withPlace(payment: CustomPayment, at: number, value: unknown): CustomPayment {
  const copy = structuredClone(payment)
  const places = placesOf(copy)
  const place = places[at % places.length]
  if (place && value === undefined) delete place.holder[place.name]
  else if (place) place.holder[place.name] = value
  return copy
}

function withMember(payment: CustomPayment, at: number, name: string, value: unknown): CustomPayment {
  const copy = structuredClone(payment)
  const holders = [copy, ...placesOf(copy).flatMap(({ holder, name: member }) => holder[member])].filter(
    (held): held is CustomPayment => typeof held === 'object' && held !== null,
  )
  // An assignment to __proto__ would set the prototype instead of a member.
  Object.defineProperty(holders[at % holders.length], name, { value, enumerable: true, configurable: true })
  return copy
}

function changeBytes(text: Buffer, at: number, how: string, bytes: Uint8Array): Buffer {
  const [head, tail] = [text.subarray(0, at), text.subarray(at)]
  switch (how) {
    case 'set':
      return Buffer.concat([head, bytes, tail.subarray(bytes.length)])
    case 'insert':
      return Buffer.concat([head, bytes, tail])
    case 'remove':
      return Buffer.concat([head, tail.subarray(bytes.length)])
    case 'cut':
      return Buffer.from(head)
    default:
      return Buffer.concat([head, tail.subarray(0, bytes.length), tail])
  }
}
