import type { KeyedConnection } from '../adapter.ts'
import { emptyOutput, rejected, unknownOutcome, withheldOutput } from '../failures.ts'
import { withMended } from '../lenient.ts'
import type { ImageOutcome, ImageProvider } from '../provider.ts'
import { firstGeneratedImage } from '../received-media.ts'
import { IMAGE_SETUP_MESSAGE } from './errors.ts'
import { createGenerateContent } from './generate-content.ts'
import { type AnswerWire, CUT_SHORT } from './wire.ts'

/** A PNG of 1024 × 1024 pixels has at most 4 MiB before Base64; thinking models add drafts. */
const MAXIMUM_RESPONSE_BYTES = 48 * 1024 * 1024

/** Finish reasons that withhold what was generated: the same prompt fails again. */
const WITHHELD_REASONS: ReadonlySet<string> = new Set([
  'SAFETY',
  'RECITATION',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
])

/**
 * Creates the image provider for a Gemini image model, one image per call.
 * Source: ai.google.dev/gemini-api/docs/image-generation and GenerationConfig.imageConfig
 */
export function createGeminiImage(dependencies: KeyedConnection): ImageProvider {
  const generateContent = createGenerateContent(dependencies, IMAGE_SETUP_MESSAGE)
  return {
    async generateImage({ prompt }, options) {
      const body = {
        contents: [{ role: 'user', parts: [{ text: prompt }] }],
        generationConfig: { responseModalities: ['IMAGE'], imageConfig: { aspectRatio: '1:1', imageSize: '1K' } },
      }
      const answered = await generateContent(body, options, MAXIMUM_RESPONSE_BYTES)
      return answered.outcome === 'failed' ? answered : withMended(readImage(answered.answer), answered.mended)
    },
  }
}

/** Reads the first image that is not a draft. The charge is per image, so token counts are not needed. */
function readImage(answer: AnswerWire): ImageOutcome {
  const candidate = answer.candidates
  const blocked = answer.promptFeedback?.blockReason
  if (candidate === undefined) {
    if (blocked !== undefined) return rejected(`HTTP 200 with a blocked prompt, ${blocked}`)
    if (answer.usageMetadata === undefined) return unknownOutcome('HTTP 200 with neither candidate nor usage')
    return emptyOutput('HTTP 200 without a candidate')
  }
  const word = candidate.finishReason ?? ''
  const reason = word === 'STOP' || CUT_SHORT.has(word) ? word : 'no known finish reason'
  const parts = (candidate.content?.parts ?? []).filter(({ thought }) => thought !== true)
  const candidates = parts.flatMap(({ inlineData }) => (inlineData?.data ? [inlineData.data] : []))
  if (candidates.length === 0) {
    const text = `HTTP 200 without an image, ${reason}`
    return WITHHELD_REASONS.has(reason) ? withheldOutput(text) : emptyOutput(text)
  }
  const image = firstGeneratedImage(candidates)
  if (image.outcome === 'failed') return image
  const { responseId } = answer
  return {
    outcome: 'generated',
    image: { bytes: image.bytes, contentType: image.contentType },
    ...(responseId === undefined ? {} : { vendorRequestId: responseId }),
  }
}
