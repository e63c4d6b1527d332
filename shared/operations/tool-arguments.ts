/** As deep as a request body may be; deeper text is not parsed into a value that later code walks. */
const MAXIMUM_DEPTH = 64

/** The object that a call's argument text stands for, or `null` when it is not the JSON text of an object. */
export function parseToolArguments(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) && isAtMostDeep(value, MAXIMUM_DEPTH) ? value : null
  } catch {
    return null
  }
}

/**
 * Arguments as JSON text of an object, which is what every vendor's wire can carry. Models sometimes write text that is
 * no such object, and clients echo it: it is kept whole under `raw_arguments`. No text at all is an empty object.
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
