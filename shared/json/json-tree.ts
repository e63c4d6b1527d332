import { visit } from 'jsonc-parser'

/** A number as its author wrote it: a JavaScript number rounds what has more than 15 digits. */
export class JsonNumber {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A JSON value with all that its text says. */
export type JsonTree = string | boolean | null | JsonNumber | readonly JsonTree[] | JsonMembers

/** The members of an object in their order, which a plain object changes for names such as `"1"`. */
export type JsonMembers = ReadonlyMap<string, JsonTree>

export function isMembers(tree: JsonTree | undefined): tree is JsonMembers {
  return tree instanceof Map
}

export function isList(tree: JsonTree | undefined): tree is readonly JsonTree[] {
  return Array.isArray(tree)
}

/** Reads text that is known to be JSON. Of a name that an object repeats the last value counts, as in `JSON.parse`. */
export function parseJsonTree(text: string): JsonTree {
  let root: JsonTree = null
  const open: (JsonTree[] | Map<string, JsonTree>)[] = []
  let name = ''
  const names: string[] = []
  const add = (tree: JsonTree): void => {
    const parent = open.at(-1)
    if (parent === undefined) root = tree
    else if (Array.isArray(parent)) parent.push(tree)
    else {
      // Otherwise a repeated name would keep its first place.
      parent.delete(name)
      parent.set(name, tree)
    }
  }
  const begin = (container: JsonTree[] | Map<string, JsonTree>): void => {
    add(container)
    open.push(container)
    names.push(name)
  }
  const end = (): void => {
    open.pop()
    name = names.pop() ?? ''
  }
  visit(
    text,
    {
      onObjectBegin: () => begin(new Map()),
      onObjectEnd: end,
      onArrayBegin: () => begin([]),
      onArrayEnd: end,
      onObjectProperty: (property) => {
        name = property
      },
      onLiteralValue: (value: string | number | boolean | null, offset, length) =>
        add(typeof value === 'number' ? new JsonNumber(text.slice(offset, offset + length)) : value),
    },
    STRICT,
  )
  return root
}

/** Returns the tree of an object of which JavaScript lost nothing. */
export function treeOf(value: unknown): JsonTree {
  if (typeof value === 'number') return new JsonNumber(JSON.stringify(value))
  if (Array.isArray(value)) return value.map(treeOf)
  if (typeof value !== 'object' || value === null) return value as string | boolean | null
  return new Map(
    Object.entries(value).flatMap(([name, member]) => (member === undefined ? [] : [[name, treeOf(member)]])),
  )
}

/** JSON itself: without comments, trailing commas or an empty text. */
export const STRICT = { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false } as const

/** Writes a tree without spaces, its members and digits as they are. */
export function writeJsonTree(tree: JsonTree): string {
  if (tree instanceof JsonNumber) return tree.text
  if (isList(tree)) return `[${tree.map(writeJsonTree).join(',')}]`
  if (!isMembers(tree)) return JSON.stringify(tree)
  return `{${[...tree].map(([name, member]) => `${JSON.stringify(name)}:${writeJsonTree(member)}`).join(',')}}`
}

/**
 * Writes a tree so that equal values have equal text: names in code-unit order, numbers in one spelling of their value.
 * Throws `TypeError` on a number beyond the range of JSON parsers.
 */
export function writeCanonicalTree(tree: JsonTree): string {
  if (tree instanceof JsonNumber) return canonicalNumber(tree.text)
  if (isList(tree)) return `[${tree.map(writeCanonicalTree).join(',')}]`
  if (!isMembers(tree)) return JSON.stringify(tree)
  const names = [...tree.keys()].sort()
  return `{${names.map((name) => `${JSON.stringify(name)}:${writeCanonicalTree(tree.get(name) ?? null)}`).join(',')}}`
}

/**
 * Returns one spelling for all spellings of a number: the shortest that JavaScript has for it where that is the same
 * decimal value, as it is for up to 15 digits, and otherwise its digits with an exponent.
 */
export function canonicalNumber(text: string): string {
  if (SHORT_INTEGER.test(text)) return text
  const number = Number(text)
  if (!Number.isFinite(number)) throw new TypeError('a number is beyond the range of JSON parsers')
  const [shortest, value] = [JSON.stringify(number), decimalValue(text)]
  return decimalValue(shortest) === value ? shortest : value
}

const SHORT_INTEGER = /^(?:0|-?[1-9]\d{0,14})$/

/** More digits of an exponent cannot be counted exactly. */
const MAXIMUM_EXPONENT_DIGITS = 15

/** Returns the decimal value of a number as its digits, without zeros at either end, and an exponent. */
function decimalValue(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = withoutOuterZeros(whole + fraction)
  if (digits.text === '') return '0'
  if (exponent.replace(/^[+-]?0*/, '').length > MAXIMUM_EXPONENT_DIGITS)
    throw new TypeError('a number is beyond the range of JSON parsers')
  const power = Number(exponent) - fraction.length + digits.trailingZeros
  return `${mantissa.startsWith('-') ? '-' : ''}${digits.text}e${power}`
}

/** Counts by hand: an expression that looks for zeros at the end takes quadratic time on a number of zeros. */
function withoutOuterZeros(digits: string): { text: string; trailingZeros: number } {
  let [start, end] = [0, digits.length]
  while (start < end && digits[start] === '0') start += 1
  while (end > start && digits[end - 1] === '0') end -= 1
  return { text: digits.slice(start, end), trailingZeros: digits.length - end }
}
