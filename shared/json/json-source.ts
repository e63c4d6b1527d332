import { visit } from 'jsonc-parser'
import { type JsonTree, parseJsonTree, STRICT, writeCanonicalTree, writeJsonTree } from './json-tree.ts'

/**
 * A JSON object that is only passed through, such as a schema or the arguments of a tool: its text with the order of
 * names and the digits that its author wrote, without spaces. JavaScript objects would put names like `"1"` first, and
 * JavaScript numbers would round.
 */
export class JsonSource {
  readonly text: string

  /** Takes text that is known to be JSON, without spaces. */
  constructor(text: string) {
    this.text = text
  }

  /** Returns the object that a text contains; `undefined` when it is not JSON, or not an object. */
  static parse(text: string): JsonSource | undefined {
    try {
      const value: unknown = JSON.parse(text)
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
      return JsonSource.fromTree(parseJsonTree(text))
    } catch {
      return undefined
    }
  }

  static fromTree(tree: JsonTree): JsonSource {
    return new JsonSource(writeJsonTree(tree))
  }

  tree(): JsonTree {
    return parseJsonTree(this.text)
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
    return JSON.parse(this.text)
  }
}

/** Returns an object as it was written, or as JavaScript writes it where it was not kept; `undefined` for anything else. */
export function sourceOf(value: unknown): JsonSource | undefined {
  if (value instanceof JsonSource) return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return new JsonSource(JSON.stringify(value))
}

/**
 * Parses JSON, and keeps each object that is the value of one of these names as a `JsonSource`; inside of one nothing is
 * kept apart. Throws as `JSON.parse` does.
 */
export function parseKeepingSources(text: string, names: ReadonlySet<string>): unknown {
  const value: unknown = JSON.parse(text)
  // An escape may spell a part of a name.
  if (!text.includes('\\u') && ![...names].some((name) => text.includes(`"${name}"`))) return value
  for (const { path, source } of sourcesIn(text, names)) {
    const holder = path.slice(0, -1).reduce<unknown>((outer, name) => (outer as Members)[name], value) as Members
    holder[path.at(-1) ?? ''] = source
  }
  return value
}

type Members = Record<string | number, unknown>

interface FoundSource {
  readonly path: readonly (string | number)[]
  readonly source: JsonSource
}

function sourcesIn(text: string, names: ReadonlySet<string>): FoundSource[] {
  const found: FoundSource[] = []
  let path: readonly (string | number)[] = []
  let pieces: string[] = []
  let depth = 0
  const add = (piece: string): void => {
    if (depth > 0) pieces.push(piece)
  }
  visit(
    text,
    {
      onObjectBegin: (_offset, _length, _line, _character, pathOf) => {
        if (depth === 0) {
          const here = pathOf()
          const name = here.at(-1)
          if (typeof name !== 'string' || !names.has(name)) return
          path = here
          pieces = []
        }
        depth += 1
        add('{')
      },
      onObjectEnd: () => {
        if (depth === 0) return
        add('}')
        depth -= 1
        if (depth === 0) found.push({ path, source: new JsonSource(pieces.join('')) })
      },
      onArrayBegin: () => add('['),
      onArrayEnd: () => add(']'),
      onSeparator: add,
      onObjectProperty: (name) => add(JSON.stringify(name)),
      onLiteralValue: (value: unknown, offset, length) =>
        add(typeof value === 'string' ? JSON.stringify(value) : text.slice(offset, offset + length)),
    },
    STRICT,
  )
  return found
}
