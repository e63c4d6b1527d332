import * as z from 'zod'
import { onlyMediaOf } from '../../media/download.ts'
import { imageRequest } from '../../requests/text-requests.ts'
import { mediaContent, REPEAT_ADVICE } from '../content/media.ts'
import { paymentForm, paymentLine, paymentMeta, paymentSchema } from '../content/payment-form.ts'
import { modelName, safeName } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'
import * as given from './arguments.ts'
import { payTextCall } from './text-call.ts'

const inputSchema = z.strictObject({
  prompt: given.prompt.describe('What the image shows.'),
  model: given.model,
  request_id: given.requestId,
})

const outputSchema = z.object({
  model: z.string(),
  url: z.string().describe('The image; the link works until expires_at.'),
  expires_at: z.string(),
  payment: paymentSchema,
})

/** Makes an image. */
export const generateImageTool = defineTool({
  ...TOOL_TEXTS.generate_image,
  inputSchema,
  outputSchema,
  run: async (session, exchange, { request_id: requestId, ...identity }) => {
    const { result, payment } = await payTextCall(session, exchange, {
      tool: 'generate_image',
      requestId,
      identity,
      summary: 'make an image',
      operation: 'createImageGeneration',
      category: 'image_generation',
      asked: identity,
      requestOf: (model) => imageRequest(model, identity.prompt),
    })
    const { url, url_expires_at } = onlyMediaOf(result, REPEAT_ADVICE)
    const model = modelName(result.model)
    const { content, meta } = await mediaContent({ url, kind: 'image', name: 'image.png' }, exchange.signal)
    return {
      structured: { model, url, expires_at: safeName(url_expires_at), payment: paymentForm(payment) },
      content: [{ type: 'text', text: `${model}: ${paymentLine(payment)}` }, ...content],
      meta: { ...paymentMeta(payment), ...meta },
    }
  },
})
