/** Deeper than any SDK's request; a parser's memory grows with every level. */
const MAXIMUM_DEPTH = 64
/** Commas and opening brackets; each value costs a parser many times its bytes. */
const MAXIMUM_STRUCTURE = 200_000

export type JsonStructure =
  | { outcome: 'sound'; found: readonly FoundObject[] }
  | { outcome: 'too_complex'; message: string }
  | { outcome: 'repeated_key'; key: string }

/** An object that is the value of a name that was looked for, and where its text begins and ends. */
export interface FoundObject {
  readonly path: readonly (string | number)[]
  readonly start: number
  readonly end: number
}

interface ScanOptions {
  /** The names whose objects are found; those inside of a found object are not. */
  readonly names?: ReadonlySet<string>
  /** Whether structure and repeated keys are judged; otherwise any text is sound. */
  readonly isStrict?: boolean
}

/** An object or array that the scan is in. */
interface Open {
  /** The keys of an object, `null` for an array. */
  readonly keys: Set<string> | null
  /** The last key, or how many commas came before. */
  at: string | number
}

const NO_NAMES: ReadonlySet<string> = new Set()
const QUOTE = 0x22
const BACKSLASH = 0x5c
const [OPEN_BRACE, CLOSED_BRACE, OPEN_BRACKET, CLOSED_BRACKET, COMMA] = [0x7b, 0x7d, 0x5b, 0x5d, 0x2c]

/**
 * Checks JSON text before it is parsed: nesting and size of the structure are bounded, and no object may repeat a key,
 * since parsers disagree on which value wins. Finds the objects under `names` on the way. Text that is not JSON may pass;
 * parsing rejects it. Runs in linear time and skips strings by searching for the next quote.
 */
export function checkJsonStructure(
  bytes: Buffer,
  { names = NO_NAMES, isStrict = true }: ScanOptions = {},
): JsonStructure {
  const open: Open[] = []
  const found: FoundObject[] = []
  /** The found object that the scan is in, and its depth. */
  let inside: { readonly path: readonly (string | number)[]; readonly start: number; readonly depth: number } | null =
    null
  let structure = 0
  let expectsKey = false
  for (let index = 0; index < bytes.length; index++) {
    switch (bytes[index]) {
      case QUOTE: {
        const end = closingQuote(bytes, index)
        if (end < 0) return { outcome: 'sound', found }
        const around = open.at(-1)
        if (expectsKey && around?.keys) {
          const key = readString(bytes.subarray(index, end + 1))
          if (isStrict && around.keys.has(key)) return { outcome: 'repeated_key', key }
          around.keys.add(key)
          around.at = key
        }
        expectsKey = false
        index = end
        break
      }
      case OPEN_BRACE: {
        const name = open.at(-1)?.at
        if (inside === null && typeof name === 'string' && names.has(name))
          inside = { path: open.map(({ at }) => at), start: index, depth: open.length }
        open.push({ keys: new Set(), at: '' })
        expectsKey = true
        structure++
        break
      }
      case OPEN_BRACKET:
        open.push({ keys: null, at: 0 })
        expectsKey = false
        structure++
        break
      case CLOSED_BRACE:
      case CLOSED_BRACKET:
        open.pop()
        expectsKey = false
        if (inside !== null && inside.depth === open.length) {
          found.push({ path: inside.path, start: inside.start, end: index + 1 })
          inside = null
        }
        break
      case COMMA: {
        const around = open.at(-1)
        expectsKey = around?.keys instanceof Set
        if (typeof around?.at === 'number') around.at++
        structure++
        break
      }
      default:
        break
    }
    if (isStrict && open.length > MAXIMUM_DEPTH)
      return { outcome: 'too_complex', message: `The JSON is nested deeper than ${MAXIMUM_DEPTH} levels.` }
    if (isStrict && structure > MAXIMUM_STRUCTURE)
      return { outcome: 'too_complex', message: `The JSON contains more than ${MAXIMUM_STRUCTURE} values.` }
  }
  return { outcome: 'sound', found }
}

function closingQuote(bytes: Buffer, opening: number): number {
  for (let end = bytes.indexOf(QUOTE, opening + 1); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let first = end
    while (bytes[first - 1] === BACKSLASH) first--
    if ((end - first) % 2 === 0) return end
  }
  return -1
}

/** Decodes a key, so that two spellings of it are equal. */
function readString(quoted: Buffer): string {
  const text = quoted.toString('utf8')
  // Without an escape the text is its only spelling.
  if (!text.includes('\\')) return text.slice(1, -1)
  try {
    return String(JSON.parse(text))
  } catch {
    return text
  }
}
