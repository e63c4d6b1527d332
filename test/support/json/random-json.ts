import fc from 'fast-check'

/*
 * JSON as its text: what JavaScript would change is in it, such as digits that a number cannot hold, names that look like
 * array indexes, and repeated spellings of one value.
 */

const digits = (maximum: number) => fc.stringMatching(new RegExp(`^[0-9]{1,${maximum}}$`))

const integer = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).map(String),
  fc.constantFrom('9007199254740993', '-9007199254740993', '18446744073709551615', '0', '-0'),
)

/** A number as its author may write it, within the range of JSON parsers. */
export const numberText: fc.Arbitrary<string> = fc.oneof(
  integer,
  fc.tuple(integer, digits(40)).map(([whole, fraction]) => `${whole}.${fraction}`),
  fc
    .tuple(integer, fc.option(digits(25)), fc.constantFrom('e', 'E', 'e+', 'E+', 'e-', 'E-'), fc.nat(200))
    .map(([whole, fraction, sign, power]) => `${whole}${fraction === null ? '' : `.${fraction}`}${sign}${power}`),
)

/** No NUL and no lone surrogates, which no store can hold. */
const storable = fc.string({ unit: 'binary', maxLength: 12 }).map((text) => text.replaceAll('\0', '').toWellFormed())

const name = fc
  .oneof(
    storable,
    fc.nat(3000).map(String),
    fc.constantFrom('reasoning', 'answer', 'parameters', 'schema', 'input', 'args'),
  )
  .filter((text) => text !== '__proto__')

const stringText = storable.map((text) => JSON.stringify(text))
const leaf = fc.oneof(numberText, stringText, fc.constantFrom('true', 'false', 'null', '""', '{}', '[]'))

const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthIdentifier: 'json' },
    { arbitrary: leaf, weight: 3 },
    {
      arbitrary: fc
        .array(tie('value'), { maxLength: 4, depthIdentifier: 'json' })
        .map((items) => `[${items.join(',')}]`),
      weight: 1,
    },
    { arbitrary: membersOf(tie('value')), weight: 2 },
  ),
}))

function membersOf(member: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .uniqueArray(fc.tuple(name, member), { selector: ([key]) => key, maxLength: 5, depthIdentifier: 'json' })
    .map((members) => `{${members.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`)
}

/** The compact text of any JSON value. */
export const jsonTexts: fc.Arbitrary<string> = value
/** The compact text of a JSON object. */
export const objectTexts: fc.Arbitrary<string> = membersOf(value)
