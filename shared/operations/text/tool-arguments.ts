/** The depth limit of request bodies; deeper values would overflow code that walks them. */
const MAXIMUM_DEPTH = 64

/** Parses the argument text of a call; returns `null` when it is not the JSON text of an object. */
export function parseToolArguments(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) && isAtMostDeep(value, MAXIMUM_DEPTH) ? value : null
  } catch {
    return null
  }
}

/**
 * Returns arguments as the JSON text of an object, which every vendor accepts. Models sometimes write other text, and
 * clients echo it: it is kept whole under `raw_arguments`. Blank text becomes an empty object.
 */
export function toolArgumentsJson(text: string): string {
  if (text.trim() === '') return '{}'
  return parseToolArguments(text) ? text : JSON.stringify({ raw_arguments: text })
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isAtMostDeep(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return levels > 0 && Object.values(value).every((member) => isAtMostDeep(member, levels - 1))
}
