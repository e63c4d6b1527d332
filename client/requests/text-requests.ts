import type { Answer, Farebox } from '../farebox.ts'
import type { JsonOperation, Requests, Results } from '../payment/operations.ts'
import type { CallOptions } from '../payment/prepare-call.ts'

/** The calls of one operation. */
interface Calls<Name extends JsonOperation> {
  create(request: Requests[Name], options: CallOptions): Promise<Answer<Results[Name]>>
}

/** Returns the calls of an operation. */
export function callsOf<Name extends JsonOperation>(farebox: Farebox, operation: Name): Calls<Name> {
  const calls: { readonly [Each in JsonOperation]: Calls<Each> } = {
    createChatCompletion: farebox.chat,
    createMessage: farebox.messages,
    createImageGeneration: farebox.images,
    createSpeech: farebox.speech,
  }
  return calls[operation]
}

/** The longest answer that can be asked for. */
export const MOST_TOKENS = 65_536

/** The bounds of the speed of speech. */
export const [SLOWEST, FASTEST] = [0.7, 1.2]

/** Returns the request of a prompt; what is not asked for is left to the service. */
export function chatRequest(
  model: string,
  prompt: string,
  { system, maxTokens }: { readonly system?: string | undefined; readonly maxTokens?: number | undefined },
) {
  const instructions = system === undefined ? [] : [{ role: 'system', content: system }]
  return {
    model: model as 'textmodel-3.6-flash',
    messages: [...instructions, { role: 'user', content: prompt }],
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  }
}

/** Returns the request of an image. */
export function imageRequest(model: string, prompt: string) {
  return { model: model as 'textmodel-3.1-flash-lite-image', prompt }
}

/** Returns the request of a text; what is not asked for is left to the service. */
export function speechRequest(
  model: string,
  input: string,
  { voice, speed }: { readonly voice?: string | undefined; readonly speed?: number | undefined },
) {
  return {
    model: model as 'speechvendor/flash-v2.5',
    input,
    ...(voice === undefined ? {} : { voice: voice as 'talia' }),
    ...(speed === undefined ? {} : { speed }),
  }
}
