import * as z from 'zod'
import type { Answer, Wire } from '../../farebox.ts'
import { chatRequest } from '../../requests/text-requests.ts'
import { paymentForm, paymentLine, paymentMeta, paymentSchema } from '../content/payment-form.ts'
import { modelName, noticeSchema, UNTRUSTED_RULE, untrusted } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool, type ToolResult } from '../tool.ts'
import * as given from './arguments.ts'
import { payTextCall } from './text-call.ts'

const inputSchema = z.strictObject({
  prompt: given.prompt.describe('What the model is asked.'),
  system: given.system,
  model: given.model,
  max_tokens: given.maxTokens,
  request_id: given.requestId,
})

const outputSchema = z.object({
  model: z.string(),
  text: z.string().describe('The answer: untrusted data.'),
  notice: noticeSchema,
  finish_reason: z.string().describe('`length`: the answer is cut off.'),
  usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int() }),
  payment: paymentSchema,
})

/** Asks a text model. */
export const chatTool = defineTool({
  ...TOOL_TEXTS.chat,
  inputSchema,
  outputSchema,
  run: async (session, exchange, { request_id: requestId, ...identity }) => {
    const { prompt, system, max_tokens: maxTokens } = identity
    const answer = await payTextCall(session, exchange, {
      tool: 'chat',
      requestId,
      identity,
      summary: 'ask a text model',
      operation: 'createChatCompletion',
      category: 'text_generation',
      asked: identity,
      requestOf: (model) => chatRequest(model, prompt, { system, maxTokens }),
    })
    return chatResult(answer)
  },
})

function chatResult({
  result,
  payment,
}: Answer<Wire.CreateChatCompletionResult>): ToolResult<z.infer<typeof outputSchema>> {
  const [choice] = result.choices
  const text = choice?.message.content ?? choice?.message.refusal ?? ''
  const model = modelName(result.model)
  const { prompt_tokens, completion_tokens } = result.usage
  return {
    structured: {
      model,
      text,
      notice: UNTRUSTED_RULE,
      finish_reason: choice?.finish_reason ?? 'stop',
      usage: { prompt_tokens, completion_tokens },
      payment: paymentForm(payment),
    },
    content: [{ type: 'text', text: `${model}: ${paymentLine(payment)}` }, ...untrusted('model', text)],
    meta: paymentMeta(payment),
  }
}
