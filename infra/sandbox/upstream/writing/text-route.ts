import type { VendorAnswer, VendorRequest, VendorRoute } from '../vendor-route.ts'
import { createPromptCache, type PromptCache } from './prompt-cache.ts'
import type { TextCall } from './text-call.ts'
import { type WrittenAnswer, writeAnswer } from './write-answer.ts'

/** A vendor's way to say what `writeAnswer` decides. */
export interface TextDialect<Call extends TextCall> extends Omit<VendorRoute, 'answer'> {
  /** Reads a request, or refuses it as the vendor does. */
  read(request: VendorRequest): Call | VendorAnswer
  readonly unreadableImage: VendorAnswer
  /** Writes an answer, whose ids are made from the digest. */
  write(answer: WrittenAnswer, call: Call, digest: string): VendorAnswer
  /** Divides a body into the events of a stream; one without counts has none in its events. */
  stream(body: unknown): readonly string[]
}

/** Creates the route of a dialect. */
export function textRoute<Call extends TextCall>(
  dialect: TextDialect<Call>,
  cache: PromptCache = createPromptCache(),
): VendorRoute {
  return {
    ...dialect,
    answer: (request) => {
      const call = dialect.read(request)
      if ('status' in call) return call
      const answer = writeAnswer(call, cache)
      if (answer === undefined) return dialect.unreadableImage
      const kept = request.lacks === 'output' ? { ...answer, text: '', toolCalls: [] } : answer
      const written = dialect.write(kept, call, request.digest)
      if (!call.isStreamed || written.status !== 200) return written
      const counted = request.lacks === 'usage' ? withoutCounts(written.body as object) : written.body
      return { ...written, events: dialect.stream(counted) }
    },
  }
}

function withoutCounts(body: object): object {
  return { ...body, usage: undefined, usageMetadata: undefined }
}
