import type { Answer, CallOptions, Farebox } from '../../farebox.ts'
import type { JsonOperation, Requests, Results } from '../../payment/operations.ts'
import { jsonCallIdentity } from '../../payment/prepare-call.ts'
import { type Category, findModel, findVoice, type ListAccess, UnknownName } from '../../requests/service-lists.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import type { PreparedCall } from '../call/pay-tool.ts'

/** The calls of one operation. */
interface Calls<Name extends JsonOperation> {
  create(request: Requests[Name], options?: CallOptions): Promise<Answer<Results[Name]>>
}

/** Returns a call whose request is JSON, as `payTool` makes it. */
export function prepareTextCall<Name extends JsonOperation>(
  farebox: Farebox,
  operation: Name,
  request: Requests[Name],
  signal: AbortSignal,
  calls: Calls<Name>,
): PreparedCall<Results[Name]> {
  return {
    identity: jsonCallIdentity(farebox.baseUrl, operation, request),
    quote: async () => (await farebox.quote({ operation, request, signal })).price.amount,
    pay: async (options) => await calls.create(request, options),
  }
}

/** Returns the model that was asked for, or the first one of the category. Throws `unknown_model` with similar names. */
export async function chooseModel(access: ListAccess, category: Category, asked: string | undefined): Promise<string> {
  return (await findModel(access, category, asked).catch(throwUnknown)).id
}

/** Throws `unknown_model` with similar names unless the model has the voice. */
export async function requireVoice(access: ListAccess, model: string, voice: string | undefined): Promise<void> {
  if (voice !== undefined) await findVoice(access, model, voice).catch(throwUnknown)
}

function throwUnknown(error: unknown): never {
  if (!(error instanceof UnknownName)) throw error
  const advice = 'Choose from the resource farebox://models.'
  throw uncharged(error.code, error.message, advice, error)
}
