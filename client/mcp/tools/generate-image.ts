import * as z from 'zod'
import { onlyMediaOf } from '../../media/download.ts'
import { imageRequest } from '../../requests/text-requests.ts'
import { payTool } from '../call/pay-tool.ts'
import { mediaContent, REPEAT_ADVICE } from '../content/media.ts'
import { paymentForm, paymentLine, paymentMeta, paymentSchema } from '../content/payment-form.ts'
import { modelName, safeName } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'
import * as given from './arguments.ts'
import { chooseModel, prepareTextCall } from './text-call.ts'

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
    const { signal } = exchange
    const { result, payment } = await payTool(session, exchange, {
      tool: 'generate_image',
      requestId,
      identity,
      summary: 'make an image',
      prepare: async (farebox, known) => {
        const asked = identity.model ?? known?.model ?? undefined
        const model = asked ?? (await chooseModel({ ...farebox, signal }, 'image_generation', asked))
        const request = imageRequest(model, identity.prompt)
        return prepareTextCall(farebox, 'createImageGeneration', request, signal, farebox.images)
      },
    })
    const { url, url_expires_at } = onlyMediaOf(result, REPEAT_ADVICE)
    const model = modelName(result.model)
    const { content, meta } = await mediaContent({ url, kind: 'image', name: 'image.png' }, signal)
    return {
      structured: { model, url, expires_at: safeName(url_expires_at), payment: paymentForm(payment) },
      content: [{ type: 'text', text: `${model}: ${paymentLine(payment)}` }, ...content],
      meta: { ...paymentMeta(payment), ...meta },
    }
  },
})
