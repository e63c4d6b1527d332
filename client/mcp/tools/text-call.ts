import type { Answer } from '../../farebox.ts'
import type { JsonOperation, Requests, Results } from '../../payment/operations.ts'
import { jsonCallIdentity } from '../../payment/prepare-call.ts'
import { type Category, findModel, findVoice, type ListAccess, UnknownName } from '../../requests/service-lists.ts'
import { callsOf } from '../../requests/text-requests.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { payTool, type ToolCall } from '../call/pay-tool.ts'
import type { Exchange, McpSession } from '../tool.ts'

interface TextCall<Name extends JsonOperation> extends Omit<ToolCall<Results[Name]>, 'prepare'> {
  readonly operation: Name
  readonly category: Category
  /** The model and the voice that were asked for. */
  readonly asked: { readonly model?: string | undefined; readonly voice?: string | undefined }
  readonly requestOf: (model: string) => Requests[Name]
}

/** Pays for a call whose request is JSON. A repetition is about the model of the first one. */
export async function payTextCall<Name extends JsonOperation>(
  session: McpSession,
  exchange: Exchange,
  { operation, category, asked, requestOf, ...call }: TextCall<Name>,
): Promise<Answer<Results[Name]>> {
  const { signal } = exchange
  return await payTool(session, exchange, {
    ...call,
    prepare: async (farebox, known) => {
      const access = { ...farebox, signal }
      const model = asked.model ?? known?.model ?? (await chooseModel(access, category, undefined))
      if (known === null) await requireVoice(access, model, asked.voice)
      const request = requestOf(model)
      return {
        identity: jsonCallIdentity(farebox.baseUrl, operation, request),
        quote: async () => (await farebox.quote({ operation, request, signal })).price.amount,
        pay: async (options) => await callsOf(farebox, operation).create(request, options),
      }
    },
  })
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
