import { imageResult, images } from '#shared/operations/images.ts'
import { type Execution, unsupportedBy, withUsage } from './execution.ts'
import { imageBytes } from './held-bytes.ts'

/** One hosted image, with its bytes inline when requested. */
export const imageGeneration: Execution = {
  heldBytes: ({ effectiveRequest }) =>
    imageBytes(images.effectiveRequestSchema.parse(effectiveRequest).response_format),
  screenedTexts: ({ job }) => [images.effectiveRequestSchema.parse(job.effectiveRequest).prompt],
  prepare: async ({ job }) => {
    const effective = images.effectiveRequestSchema.parse(job.effectiveRequest)
    const { price_per_image_usd: price } = images.termsSchema.parse(job.terms)
    return {
      call: async (deployment, options) => {
        if (!deployment.image) return unsupportedBy(deployment)
        const outcome = await deployment.image.generateImage({ prompt: effective.prompt, size: '1024x1024' }, options)
        const usage = { images: 1 }
        if (outcome.outcome === 'failed') return withUsage(outcome, usage)
        const { bytes, contentType } = outcome.image
        const product = {
          usage,
          mended: outcome.mended,
          media: { bytes, contentType, mediaClass: 'images' as const },
          result: (stored: { url: string; expiresAt: Date }, createdAt: Date) =>
            imageResult({
              created: Math.floor(createdAt.getTime() / 1000),
              ...stored,
              price,
              ...(effective.response_format === 'b64_json' ? { base64: Buffer.from(bytes).toString('base64') } : {}),
              ...(outcome.revisedPrompt === undefined ? {} : { revisedPrompt: outcome.revisedPrompt }),
            }),
        }
        return { outcome: 'produced', product }
      },
    }
  },
}
