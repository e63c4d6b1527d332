import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { messages } from '#shared/operations/messages.ts'
import { chatCompletionResult, type TextResultFacts } from '#shared/operations/text/chat-result.ts'
import { messageResult } from '#shared/operations/text/message-result.ts'
import type { TextOutput, TextPart, TextRequest } from '#shared/operations/text/text-request.ts'
import { type Execution, MemoryShort, unsupportedBy } from './execution.ts'
import { MAXIMUM_REMOTE_IMAGE_BYTES, remoteImageBytes, textBytes } from './held-bytes.ts'
import type { ImageCaller, RemoteImages } from './remote-images.ts'

/** The part of a text execution that depends on the endpoint's family. */
interface TextFamily {
  readonly effectiveRequestSchema: (typeof chatCompletions | typeof messages)['effectiveRequestSchema']
  readonly result: (facts: TextResultFacts, output: TextOutput) => unknown
}

export const chatCompletion = (remoteImages: RemoteImages): Execution =>
  textExecution(
    { effectiveRequestSchema: chatCompletions.effectiveRequestSchema, result: chatCompletionResult },
    remoteImages,
  )
export const message = (remoteImages: RemoteImages): Execution =>
  textExecution({ effectiveRequestSchema: messages.effectiveRequestSchema, result: messageResult }, remoteImages)

/** Creates a text execution: the internal request goes upstream, and the result takes the family's shape. */
function textExecution(family: TextFamily, remoteImages: RemoteImages): Execution {
  return {
    heldBytes: textBytes,
    screenedTexts: ({ job }) => textsOf(family.effectiveRequestSchema.parse(job.effectiveRequest).request),
    prepare: async ({ job }, memory) => {
      const { request, include_thought_signatures: includeThoughtSignatures } = family.effectiveRequestSchema.parse(
        job.effectiveRequest,
      )
      const caller = { payer: job.authorization.payer, isNewPayer: job.isNewPayer }
      const bytesWith = (imageBytes: number) => textBytes(job) + remoteImageBytes(imageBytes)
      let heldBytes = textBytes(job)
      const inlined = await inlineRemoteImages(request, remoteImages, caller, (imageBytes) => {
        heldBytes = bytesWith(imageBytes)
        if (!memory.extendTo(heldBytes)) throw new MemoryShort(bytesWith(MAXIMUM_REMOTE_IMAGE_BYTES))
      })
      memory.shrinkTo(heldBytes)
      return {
        prefix: prefixOf(request),
        call: async (deployment, options) => {
          if (!deployment.text) return unsupportedBy(deployment)
          const outcome = await deployment.text.generateText(inlined, options)
          if (outcome.outcome === 'failed') return outcome
          const product = {
            usage: outcome.output.usage,
            mended: outcome.mended,
            media: null,
            result: (_: null, createdAt: Date) =>
              family.result(
                {
                  id: job.id.replaceAll('-', ''),
                  created: Math.floor(createdAt.getTime() / 1000),
                  model: job.publicModel,
                  includeThoughtSignatures,
                },
                request.parallel_tool_calls === false ? withOneCall(outcome.output) : outcome.output,
              ),
          }
          return { outcome: 'produced', product }
        },
      }
    },
  }
}

/** Keeps the first call: not every vendor has an option for it, and models ignore it. */
function withOneCall(output: TextOutput): TextOutput {
  return { ...output, tool_calls: output.tool_calls.slice(0, 1) }
}

/**
 * No vendor caches less: 1,024 tokens (OpenAI and Anthropic; Gemini's Flash too), at some four characters each. Sources:
 * platform.openai.com/docs/guides/prompt-caching, docs.claude.com/en/docs/build-with-claude/prompt-caching.
 */
const SHORTEST_CACHED_CHARACTERS = 4096

/**
 * Returns the digest of what every step of a conversation begins with: tools and system instruction, and the first
 * message where these are too short to be cached. `undefined` for requests that no vendor caches.
 */
function prefixOf({ tools = [], system = '', messages: turns }: TextRequest): string | undefined {
  const definitions = tools.map(({ parameters, ...tool }) => ({ ...tool, parameters: parameters.text }))
  const instructions = JSON.stringify([definitions, system], withoutBreakpoint)
  if (instructions.length >= SHORTEST_CACHED_CHARACTERS) return sha256Hex(instructions)
  const conversation = JSON.stringify(turns)
  if (instructions.length + conversation.length < SHORTEST_CACHED_CHARACTERS) return undefined
  return sha256Hex(instructions + JSON.stringify(turns[0], withoutBreakpoint))
}

/** Leaves out where the caller wants the prompt cached, which moves on as a conversation grows. */
function withoutBreakpoint(name: string, value: unknown): unknown {
  return name === 'cache_breakpoint' ? undefined : value
}

/**
 * Returns every text that goes upstream, including the model's own turns, which the caller could have written, and
 * names, ids, stop sequences, tool descriptions and schemas, which can carry a prompt just like a message. Images are
 * not screened.
 */
function textsOf(request: TextRequest): readonly string[] {
  const { system, messages: turns, tools = [], response_format: format, stop_sequences: stops = [] } = request
  const parts = turns.flatMap(({ parts }) => parts)
  const texts = parts.flatMap((part) => {
    if (part.type === 'tool_call') return [part.id, part.name, part.arguments_json]
    if (part.type === 'tool_result') return [part.tool_call_id, part.name ?? '', part.text]
    return part.type === 'text' ? [part.text] : []
  })
  const definitions = tools.map(({ name, description = '', parameters }) =>
    [name, description, parameters.text].join(' '),
  )
  const schema = format?.type === 'json_schema' ? [format.name ?? '', format.description ?? '', format.schema.text] : []
  const all = [system ?? '', ...texts, ...definitions, ...schema, ...stops]
  // Ids and names occur once for each call and its result.
  return [...new Set(all)].filter((text) => text.trim() !== '')
}

/** Fetches the images that are referenced by URL. Throws like `fetchAll`, and what `onBytes` throws. */
async function inlineRemoteImages(
  request: TextRequest,
  remoteImages: RemoteImages,
  caller: ImageCaller,
  onBytes: (bytes: number) => void,
): Promise<TextRequest> {
  const urls = request.messages.flatMap(({ parts }) => parts.flatMap(remoteUrl))
  if (urls.length === 0) return request
  const fetched = await remoteImages.fetchAll(urls, caller, onBytes)
  return {
    ...request,
    messages: request.messages.map(({ role, parts }) => ({
      role,
      parts: parts.map((part) => {
        const image = part.type === 'image' && part.source.kind === 'url' ? fetched.get(part.source.url) : undefined
        return image ? { ...part, type: 'image' as const, source: { kind: 'inline' as const, ...image } } : part
      }),
    })),
  }
}

function remoteUrl(part: TextPart): string[] {
  return part.type === 'image' && part.source.kind === 'url' ? [part.source.url] : []
}
