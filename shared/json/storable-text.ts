/**
 * Returns the path to the first text in a JSON value that cannot be stored unchanged, or `null`: lone surrogates have no
 * UTF-8 form, and PostgreSQL cannot store U+0000. Property names count as text too.
 */
export function pathToUnstorable(value: unknown): PropertyKey[] | null {
  if (typeof value === 'string') return isStorable(value) ? null : []
  if (typeof value !== 'object' || value === null) return null
  for (const [key, member] of Object.entries(value)) {
    const path = isStorable(key) ? pathToUnstorable(member) : []
    if (path) return [Array.isArray(value) ? Number(key) : key, ...path]
  }
  return null
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
