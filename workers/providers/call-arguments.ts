/**
 * Returns the arguments of a call that the caller sends back, for vendors that take an object. Any other text reaches
 * the model as it is.
 */
export function argumentsObject(text: string): object {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Sent as it is, below.
  }
  return text.trim() === '' ? {} : { arguments: text }
}

/**
 * Returns the arguments of a call as the JSON text of an object, or `undefined` when they are none. Nothing can be
 * added to the JSON of an object, so arguments that parse are whole even where the output was cut. Blank ones mean that
 * there are none, unless the output may have been cut before them.
 */
export function callArguments(json: string, mayBeCut: boolean): string | undefined {
  if (json.trim() === '') return mayBeCut ? undefined : '{}'
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? json : undefined
  } catch {
    return undefined
  }
}
