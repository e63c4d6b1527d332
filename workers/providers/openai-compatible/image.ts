import type { OpenConnection } from '../adapter.ts'
import { emptyOutput, unknownOutcome, withheldOutput } from '../failures.ts'
import { readLeniently, withMended } from '../lenient.ts'
import type { ImageOutcome, ImageProvider } from '../provider.ts'
import { firstGeneratedImage, isDataUrl } from '../received-media.ts'
import { readJson } from '../wire-fields.ts'
import { callId, createPost } from './connection.ts'
import { failureOf, MEDIA_SETUP_FIELDS } from './errors.ts'
import { imagesWire } from './wire.ts'

/** Twice 1024 × 1024 pixels of four bytes, uncompressed, in Base64. */
const MAXIMUM_RESPONSE_BYTES = 12 * 1024 * 1024

/** The qualities of OpenAI's GPT image models; each is billed differently. */
export const IMAGE_QUALITIES = ['low', 'medium', 'high', 'xhigh', 'max'] as const
export type ImageQuality = (typeof IMAGE_QUALITIES)[number]

export interface OpenAiCompatibleImageDependencies extends OpenConnection {
  /**
   * Whether to send `response_format: b64_json`; the default. Self-hosted servers return a URL otherwise; OpenAI's GPT
   * image models reject the field and always return the image inline.
   */
  readonly sendResponseFormat?: boolean
  /** Not sent unless set; OpenAI then chooses one itself, and with it its price. */
  readonly quality?: ImageQuality | undefined
}

/**
 * Creates the image provider for an OpenAI-style server: one `POST {baseUrl}/images/generations` per call. An answer
 * with a URL instead of the bytes is `provider_outcome_unknown`, since URLs in answers are never fetched; one that is the image
 * itself is read. Throws like `createPost`. Source: see `wire.ts`.
 */
export function createOpenAiCompatibleImage(dependencies: OpenAiCompatibleImageDependencies): ImageProvider {
  const { upstreamModel, sendResponseFormat = true, quality } = dependencies
  const post = createPost(dependencies, '/images/generations')
  const fixed = {
    ...(quality === undefined ? {} : { quality }),
    ...(sendResponseFormat ? { response_format: 'b64_json' } : {}),
  }
  return {
    async generateImage({ prompt, size }, options) {
      const exchange = await post(
        { model: upstreamModel, prompt, n: 1, size, ...fixed },
        { ...options, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange, MEDIA_SETUP_FIELDS)
      const outcome = readImage(exchange.bytes)
      return { ...outcome, ...callId(exchange.headers) }
    },
  }
}

function readImage(answerBytes: Uint8Array): ImageOutcome {
  const { value: answer, mended } = readLeniently(imagesWire, readJson(answerBytes))
  if (answer === undefined) return unknownOutcome('HTTP 200 with a malformed image answer')
  const candidates = answer.data.flatMap(({ b64_json: base64, url = '' }) => {
    const inline = isDataUrl(url) ? url : undefined
    return base64 || inline || []
  })
  const [item] = answer.data
  if (candidates.length === 0) {
    if (item?.respect_moderation === false) return withheldOutput('HTTP 200 with an image that moderation withheld')
    return item?.url ? unknownOutcome('HTTP 200 with a URL instead of the image') : noImage
  }
  const image = firstGeneratedImage(candidates)
  if (image.outcome === 'failed') return image
  const { bytes } = image
  const revisedPrompt = item?.revised_prompt ?? ''
  const generated = {
    outcome: 'generated' as const,
    image: { bytes, contentType: image.contentType },
    ...(revisedPrompt === '' ? {} : { revisedPrompt }),
  }
  return withMended(generated, mended)
}

const noImage = emptyOutput('HTTP 200 without an image')
