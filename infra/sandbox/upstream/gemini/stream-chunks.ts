import { inGroups, serverEvent } from '../server-event.ts'
import { tokenPieces } from '../writing/count-tokens.ts'

interface Answer {
  readonly candidates?: readonly {
    readonly content?: { readonly role: string; readonly parts?: readonly Part[] }
    readonly finishReason: string
    readonly index: number
  }[]
  readonly usageMetadata?: Readonly<Record<string, unknown>>
}

type Part = Readonly<Record<string, unknown>>

/** Tokens of one chunk of text. */
const TOKENS_PER_CHUNK = 16

/**
 * Divides an answer into the chunks of a stream, each an answer with the next part and cumulative counts. A function call is
 * never divided. Source: ai.google.dev/api/generate-content, streamGenerateContent
 */
export function answerChunks(body: unknown, { reportsUsage }: { reportsUsage: boolean }): string[] {
  const { candidates: [candidate] = [], usageMetadata, ...known } = body as Answer
  const usage = reportsUsage ? usageMetadata : undefined
  if (candidate?.content === undefined) {
    return [
      serverEvent({ ...(candidate === undefined ? {} : { candidates: [candidate] }), usageMetadata: usage, ...known }),
    ]
  }
  const { content, index, finishReason } = candidate
  const parts = (content.parts ?? []).flatMap(dividedPart)
  const chunks = parts.length === 0 ? [undefined] : parts
  let written = 0
  return chunks.map((part, position) => {
    const isLast = position === chunks.length - 1
    written += typeof part?.['text'] === 'string' ? tokenPieces(part['text']).length : 0
    const parted = part === undefined ? content : { role: content.role, parts: [part] }
    return serverEvent({
      candidates: [{ content: parted, ...(isLast ? { finishReason } : {}), index }],
      usageMetadata: isLast ? usage : countsAfter(written, usage),
      ...known,
    })
  })
}

function dividedPart(part: Part): Part[] {
  const { text, ...others } = part
  if (typeof text !== 'string') return [part]
  const texts = inGroups(tokenPieces(text), TOKENS_PER_CHUNK)
  return texts.map((piece, index) => (index === 0 ? { text: piece, ...others } : { text: piece }))
}

function countsAfter(written: number, counts: Answer['usageMetadata']): object | undefined {
  if (counts === undefined) return undefined
  const [input, thoughts] = [counts['promptTokenCount'], counts['thoughtsTokenCount']].map((count) =>
    Number(count ?? 0),
  )
  return {
    ...counts,
    ...(written === 0 ? {} : { candidatesTokenCount: written }),
    totalTokenCount: (input ?? 0) + (thoughts ?? 0) + written,
  }
}
