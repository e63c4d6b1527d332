import * as z from 'zod'
import { onlyMediaOf } from '../../media/download.ts'
import { speechRequest } from '../../requests/text-requests.ts'
import { mediaContent, REPEAT_ADVICE } from '../content/media.ts'
import { paymentForm, paymentLine, paymentMeta, paymentSchema } from '../content/payment-form.ts'
import { modelName, safeName } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'
import * as given from './arguments.ts'
import { payTextCall } from './text-call.ts'

const inputSchema = z.strictObject({
  text: given.prompt.describe('What is spoken.'),
  voice: given.voice,
  speed: given.speed,
  model: given.model,
  request_id: given.requestId,
})

const outputSchema = z.object({
  model: z.string(),
  url: z.string().describe('The MP3; the link works until expires_at.'),
  expires_at: z.string(),
  bytes: z.int(),
  duration_ms: z.int(),
  payment: paymentSchema,
})

/** Speaks a text. */
export const speakTool = defineTool({
  ...TOOL_TEXTS.speak,
  inputSchema,
  outputSchema,
  run: async (session, exchange, { request_id: requestId, ...identity }) => {
    const { text, voice, speed } = identity
    const { result, payment } = await payTextCall(session, exchange, {
      tool: 'speak',
      requestId,
      identity,
      summary: 'speak a text',
      operation: 'createSpeech',
      category: 'text_to_speech',
      asked: identity,
      requestOf: (model) => speechRequest(model, text, { voice, speed }),
    })
    const { url, bytes, duration_ms, expires_at } = onlyMediaOf(result, REPEAT_ADVICE)
    const model = modelName(result.model)
    const { content, meta } = await mediaContent({ url, bytes, kind: 'audio', name: 'speech.mp3' }, exchange.signal)
    return {
      structured: {
        model,
        url,
        expires_at: safeName(expires_at),
        bytes,
        duration_ms,
        payment: paymentForm(payment),
      },
      content: [{ type: 'text', text: `${model}: ${paymentLine(payment)}` }, ...content],
      meta: { ...paymentMeta(payment), ...meta },
    }
  },
})
