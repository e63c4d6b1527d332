import { serverEvent } from '../server-event.ts'
import { countTokens, inTokens } from '../writing/count-tokens.ts'

interface Answer {
  readonly candidates?: readonly {
    readonly content?: { readonly role: string; readonly parts?: readonly Part[] }
    readonly finishReason: string
    readonly index: number
  }[]
  readonly usageMetadata?: Readonly<Record<string, number>>
}

interface Part {
  readonly text?: string
}

/**
 * Divides an answer into the chunks of a stream, each an answer with the next part and cumulative counts. A function call is
 * never divided. Source: ai.google.dev/api/generate-content, streamGenerateContent
 */
export function answerChunks(body: unknown): string[] {
  const { candidates: [candidate] = [], usageMetadata: usage, ...known } = body as Answer
  const { content, finishReason, index } = candidate ?? {}
  const parts = (content?.parts ?? []).flatMap(dividedPart)
  if (content === undefined || parts.length === 0) return [serverEvent(body as object)]
  let written = 0
  return parts.map((part, position) => {
    const isLast = position === parts.length - 1
    written += countTokens(part.text ?? '')
    const counts = usage && {
      ...usage,
      ...(written === 0 ? {} : { candidatesTokenCount: written }),
      totalTokenCount: (usage['promptTokenCount'] ?? 0) + (usage['thoughtsTokenCount'] ?? 0) + written,
    }
    const parted = { content: { role: content.role, parts: [part] }, ...(isLast ? { finishReason } : {}), index }
    return serverEvent({ candidates: [parted], usageMetadata: isLast ? usage : counts, ...known })
  })
}

function dividedPart(part: Part): Part[] {
  const { text, ...others } = part
  if (typeof text !== 'string') return [part]
  return inTokens(text, 16).map((piece, index) => ({ text: piece, ...(index === 0 ? others : {}) }))
}
