import { visit } from 'jsonc-parser'
import { type JsonTree, parseJsonTree, STRICT, treeOf, writeCanonicalTree, writeJsonTree } from './json-tree.ts'
import { checkJsonStructure, type FoundObject } from './scan-json.ts'

/**
 * A JSON object that is only passed through, such as a schema or the arguments of a tool: its text with the order of
 * names and the digits that its author wrote, without spaces. JavaScript objects would put names like `"1"` first, and
 * JavaScript numbers would round.
 */
export class JsonSource {
  readonly text: string
  readonly #plain: object | undefined

  /** Takes text that is known to be JSON, without spaces. */
  constructor(text: string, plain?: object) {
    this.text = text
    this.#plain = plain
  }

  /** The object as JavaScript has it, where that loses nothing. */
  get plain(): object | undefined {
    return this.#plain
  }

  /** Returns the object that a text contains; `undefined` when it is not JSON, or not an object. */
  static parse(text: string): JsonSource | undefined {
    try {
      const value: unknown = JSON.parse(text)
      return isObject(value) ? kept(text, value) : undefined
    } catch {
      return undefined
    }
  }

  static fromTree(tree: JsonTree): JsonSource {
    return new JsonSource(writeJsonTree(tree))
  }

  tree(): JsonTree {
    return this.#plain === undefined ? parseJsonTree(this.text) : treeOf(this.#plain)
  }

  /**
   * Returns the text of which equal values have the same, whatever the order of names and the spelling of numbers. Throws
   * `TypeError` on a number beyond the range of JSON parsers.
   */
  canonicalText(): string {
    return writeCanonicalTree(this.tree())
  }

  /** Returns what `JSON.parse` makes of it, with its losses; for code that only shows or counts. */
  toJSON(): unknown {
    return this.#plain ?? JSON.parse(this.text)
  }
}

/** Returns an object as it was written; `undefined` for anything else. A plain object is one that JavaScript wrote. */
export function sourceOf(value: unknown): JsonSource | undefined {
  if (value instanceof JsonSource) return value
  return isObject(value) ? new JsonSource(JSON.stringify(value), value) : undefined
}

/**
 * Parses JSON, and keeps each object that is the value of one of these names as a `JsonSource`; inside of one nothing is
 * kept apart. Throws as `JSON.parse` does.
 */
export function parseKeepingSources(text: string, names: ReadonlySet<string>): unknown {
  const value: unknown = JSON.parse(text)
  // An escape may spell a part of a name.
  if (!text.includes('\\u') && ![...names].some((name) => text.includes(`"${name}"`))) return value
  const bytes = Buffer.from(text)
  const scanned = checkJsonStructure(bytes, { names, isStrict: false })
  if (scanned.outcome === 'sound') keepSources(value, bytes, scanned.found)
  return value
}

/** Puts the sources of the objects that were found in the text of a parsed value in their place. */
export function keepSources(value: unknown, text: Buffer, found: readonly FoundObject[]): void {
  for (const { path, start, end } of found) {
    const holder = path.slice(0, -1).reduce<unknown>((outer, name) => (outer as Members)[name], value) as Members
    const name = path.at(-1) ?? ''
    const object = holder[name]
    if (isObject(object)) holder[name] = kept(text.toString('utf8', start, end), object)
  }
}

type Members = Record<string | number, unknown>

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * What JavaScript may lose of an object's text: the order of names that are array indexes, digits, the spelling of a
 * number. The same in a string does no harm: such an object is only read more slowly.
 */
const MAY_BE_LOST = /"\d+"\s*:|\\u|__proto__|\d[eE]|-0|\.\d*0(?!\d)|[\d.]{16}/

function kept(text: string, value: object): JsonSource {
  return MAY_BE_LOST.test(text) ? new JsonSource(withoutSpaces(text)) : new JsonSource(JSON.stringify(value), value)
}

/** Returns JSON without spaces between its tokens, and its strings as `JSON.stringify` writes them. */
function withoutSpaces(text: string): string {
  const pieces: string[] = []
  const add = (piece: string): void => {
    pieces.push(piece)
  }
  visit(
    text,
    {
      onObjectBegin: () => add('{'),
      onObjectEnd: () => add('}'),
      onArrayBegin: () => add('['),
      onArrayEnd: () => add(']'),
      onSeparator: add,
      onObjectProperty: (name) => add(JSON.stringify(name)),
      onLiteralValue: (value: unknown, offset, length) =>
        add(typeof value === 'string' ? JSON.stringify(value) : text.slice(offset, offset + length)),
    },
    STRICT,
  )
  return pieces.join('')
}
