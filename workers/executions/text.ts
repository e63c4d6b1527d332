import { AppError } from '#shared/errors/app-error.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { messages } from '#shared/operations/messages.ts'
import { chatCompletionResult, type TextResultFacts } from '#shared/operations/text/chat-result.ts'
import { messageResult } from '#shared/operations/text/message-result.ts'
import type { TextOutput, TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { type Execution, unsupportedBy } from './execution.ts'
import type { ImageFetcher, RemoteImage } from './fetch-remote-image.ts'

/** More than any conversation needs; each is a request that a caller makes the worker send. */
const MAXIMUM_REMOTE_IMAGES = 16

/** No vendor accepts a larger request. */
const MAXIMUM_REMOTE_BYTES = 20 * 1024 * 1024

/** The part of a text execution that depends on the endpoint's family. */
interface TextFamily {
  readRequest(job: ClaimedJob): { request: TextRequest; includeThoughtSignatures: boolean }
  result(facts: TextResultFacts, output: TextOutput): unknown
}

const chatFamily: TextFamily = {
  readRequest: ({ effectiveRequest }) => {
    const { request, include_thought_signatures } = chatCompletions.effectiveRequestSchema.parse(effectiveRequest)
    return { request, includeThoughtSignatures: include_thought_signatures }
  },
  result: chatCompletionResult,
}

const messageFamily: TextFamily = {
  readRequest: ({ effectiveRequest }) => {
    const { request, include_thought_signatures } = messages.effectiveRequestSchema.parse(effectiveRequest)
    return { request, includeThoughtSignatures: include_thought_signatures }
  },
  result: messageResult,
}

export const chatCompletion = (imageFetcher: ImageFetcher): Execution => textExecution(chatFamily, imageFetcher)
export const message = (imageFetcher: ImageFetcher): Execution => textExecution(messageFamily, imageFetcher)

/** Creates a text execution: the internal request goes upstream, and the result takes the family's shape. */
function textExecution(family: TextFamily, imageFetcher: ImageFetcher): Execution {
  return {
    screenedTexts: ({ job }) => textsOf(family.readRequest(job).request),
    prepare: async ({ job }) => {
      const { request, includeThoughtSignatures } = family.readRequest(job)
      const inlined = await inlineRemoteImages(request, imageFetcher)
      return {
        call: async (deployment, options) => {
          if (!deployment.text) return unsupportedBy(deployment)
          const outcome = await deployment.text.generateText(inlined, options)
          if (outcome.outcome === 'failed') return outcome
          const product = {
            usage: outcome.output.usage,
            media: null,
            result: (_: null, createdAt: Date) =>
              family.result(
                {
                  id: job.id.replaceAll('-', ''),
                  created: Math.floor(createdAt.getTime() / 1000),
                  model: job.publicModel,
                  includeThoughtSignatures,
                },
                outcome.output,
              ),
          }
          return { outcome: 'produced', product }
        },
      }
    },
  }
}

/**
 * Returns every text that goes upstream, including the model's own turns, which the caller could have written, and tool
 * descriptions and schemas, which can carry a prompt just like a message.
 */
function textsOf({ system, messages: turns, tools = [], response_format: format }: TextRequest): readonly string[] {
  const parts = turns.flatMap(({ parts }) => parts)
  const texts = parts.flatMap((part) => {
    if (part.type === 'tool_call') return [part.arguments_json]
    return part.type === 'text' || part.type === 'tool_result' ? [part.text] : []
  })
  const definitions = tools.map(({ name, description = '', parameters }) =>
    [name, description, JSON.stringify(parameters)].join(' '),
  )
  const schema = format?.type === 'json_schema' ? [JSON.stringify(format.schema)] : []
  const all = [...(system === undefined ? [] : [system]), ...texts, ...definitions, ...schema]
  return all.filter((text) => text.trim() !== '')
}

/** Fetches the images that are referenced by URL, each URL once. Throws `image_unavailable`. */
async function inlineRemoteImages(request: TextRequest, imageFetcher: ImageFetcher): Promise<TextRequest> {
  const urls = new Set(request.messages.flatMap(({ parts }) => parts.flatMap(remoteUrl)))
  if (urls.size === 0) return request
  if (urls.size > MAXIMUM_REMOTE_IMAGES)
    throw new AppError('image_unavailable', {
      message: `A request can reference at most ${MAXIMUM_REMOTE_IMAGES} images by URL. Nothing was charged.`,
    })
  const fetched = new Map<string, RemoteImage>()
  let bytes = 0
  // Sequentially: a worker runs many jobs, and each image is in memory several times on its way upstream.
  for (const url of urls) {
    const image = await imageFetcher.fetch(url)
    bytes += image.bytes.length
    if (bytes > MAXIMUM_REMOTE_BYTES)
      throw new AppError('image_unavailable', {
        message: 'The images referenced by URL are larger than 20 MB in total. Nothing was charged.',
      })
    fetched.set(url, image)
  }
  return {
    ...request,
    messages: request.messages.map(({ role, parts }) => ({
      role,
      parts: parts.map((part) => {
        const image = part.type === 'image' && part.source.kind === 'url' ? fetched.get(part.source.url) : undefined
        if (!image) return part
        const base64 = Buffer.from(image.bytes).toString('base64')
        return { type: 'image' as const, source: { kind: 'inline' as const, media_type: image.mediaType, base64 } }
      }),
    })),
  }
}

function remoteUrl(part: TextPart): string[] {
  return part.type === 'image' && part.source.kind === 'url' ? [part.source.url] : []
}
