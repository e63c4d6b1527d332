import type { GeminiRequest } from './request-wire.ts'

/**
 * Returns the message of the 400 with which the vendor refuses turns whose calls and responses do not match. It counts them
 * and compares no ids.
 *
 * Source: the messages are the vendor's, as reported (google-gemini/gemini-cli#17208 and #26486,
 * GoogleCloudPlatform/generative-ai#368), read on 28 November 2026
 */
export function turnFault(contents: GeminiRequest['contents']): string | undefined {
  let open = 0
  for (const [index, { role = 'user', parts }] of contents.entries()) {
    const calls = parts.filter((part) => 'functionCall' in part).length
    const responses = parts.filter((part) => 'functionResponse' in part).length
    if (responses > 0 && open === 0)
      return 'Please ensure that function response turn comes immediately after a function call turn.'
    if (responses !== open)
      return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.'
    const before = contents[index - 1]
    if (calls > 0 && (role !== 'model' || before === undefined || before.role === 'model'))
      return 'Please ensure that function call turn comes immediately after a user turn or after a function response turn.'
    open = calls
  }
  return undefined
}
