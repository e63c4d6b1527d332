import { emptyOutput, unknownOutcome } from '../failures.ts'
import { generatedImageType } from '../generated-image-type.ts'
import type { ImageOutcome, ImageProvider } from '../provider.ts'
import { callName, createPost, type OpenAiCompatibleDependencies, readJson } from './connection.ts'
import { failureOf } from './errors.ts'
import { imagesWire } from './wire.ts'

/** 1024 × 1024 pixels of four bytes, not compressed at all, in Base64, twice. */
const maximumResponseBytes = 12 * 1024 * 1024

export interface OpenAiCompatibleImageDependencies extends OpenAiCompatibleDependencies {
  /**
   * Whether to ask for `response_format: b64_json`. Self-hosted servers answer with a URL otherwise; OpenAI's GPT image models
   * refuse the field and always answer inline. Sent by default.
   */
  readonly sendResponseFormat?: boolean
}

/**
 * Images by an OpenAI-style server: one `POST {baseUrl}/images/generations` per call. An answer with a URL in place of the
 * bytes is `provider_outcome_unknown`, since nothing is fetched from where an answer points to. Throws at creation like
 * `createPost`. Source: see `wire.ts`.
 */
export function createOpenAiCompatibleImage(dependencies: OpenAiCompatibleImageDependencies): ImageProvider {
  const { upstreamModel, sendResponseFormat = true } = dependencies
  const post = createPost(dependencies, '/images/generations')
  const asked = sendResponseFormat ? { response_format: 'b64_json' } : {}
  return {
    async generateImage({ prompt, size }, options) {
      const exchange = await post(
        { model: upstreamModel, prompt, n: 1, size, ...asked },
        { ...options, maximumResponseBytes },
      )
      if (exchange.outcome !== 'response' || exchange.status !== 200) return failureOf(exchange)
      const outcome = readImage(exchange.bytes)
      return { ...outcome, ...callName(exchange.headers) }
    },
  }
}

function readImage(answerBytes: Uint8Array): ImageOutcome {
  const answer = imagesWire.safeParse(readJson(answerBytes))
  if (!answer.success) return unknownOutcome('HTTP 200 with an ill-shaped image answer')
  const [item] = answer.data.data ?? []
  const base64 = item?.b64_json ?? ''
  if (base64 === '') return item?.url ? unknownOutcome('HTTP 200 with a URL in place of the image') : noImage
  const bytes = Buffer.from(base64, 'base64')
  const contentType = generatedImageType(bytes)
  if (contentType === null) return unknownOutcome('HTTP 200 with bytes that are no PNG, JPEG or WebP')
  const revisedPrompt = item?.revised_prompt
  return {
    outcome: 'generated',
    image: { bytes, contentType },
    ...(revisedPrompt === undefined || revisedPrompt === null || revisedPrompt === '' ? {} : { revisedPrompt }),
  }
}

const noImage = emptyOutput('HTTP 200 without an image')
