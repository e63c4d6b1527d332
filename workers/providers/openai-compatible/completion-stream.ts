import { isObject } from '#shared/operations/text/tool-arguments.ts'
import type { StreamProgress, TakeEvent } from '../event-stream.ts'
import { readLeniently } from '../lenient.ts'
import { hasError } from '../streamed-answer.ts'
import { parseJsonText } from '../wire-fields.ts'
import { type ChunkWire, type CompletionWire, chunkErrorWire, chunkWire, WRITTEN } from './wire.ts'

interface StreamedCall {
  id: string
  name: string
  readonly pieces: string[]
}

/** What has arrived of a streamed completion. */
export interface CompletionStream {
  readonly take: TakeEvent
  /** The error that ended the stream: its status, where it has one, and whether output had arrived by then. */
  readonly error:
    | { readonly status: number | undefined; readonly data: string; readonly isAfterOutput: boolean }
    | undefined
  readonly id: string | undefined
  readonly finishReason: string | undefined
  /** What the server said of the sequence that ended the answer. */
  readonly stop: Pick<NonNullable<CompletionWire['choices']>, 'stop_reason' | 'matched_stop'>
  /** The fields that were not as documented. */
  readonly mended: readonly string[]
  /** The latest counts; most servers report them once, after the output. */
  readonly usage: CompletionWire['usage'] | undefined
  readonly text: string
  readonly refusal: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  /** How many events text and refusal, and the arguments of the calls, arrived in. */
  readonly textPieces: number
  readonly callPieces: number
}

/**
 * Creates the assembly of a streamed completion. Hidden thinking (`reasoning_content`) is ignored.
 * Sources: see `wire.ts`.
 */
export function createCompletionStream(): CompletionStream {
  const texts: string[] = []
  const refusals: string[] = []
  const calls: StreamedCall[] = []
  /** The call that each index stands for now. */
  const callAt = new Map<number, StreamedCall>()
  let id: string | undefined
  let finishReason: string | undefined
  let stop: CompletionStream['stop'] = {}
  const mended = new Set<string>()
  let usage: CompletionWire['usage'] | undefined
  let error: CompletionStream['error']
  let progress: StreamProgress = 'waiting'

  const hasOutput = () => texts.length + refusals.length + calls.length > 0
  const add = (chunk: ChunkWire): StreamProgress => {
    id ??= chunk.id ?? undefined
    const choice = chunk.choices.find(({ index }) => (index ?? 0) === 0)
    usage = chunk.usage ?? choice?.usage ?? usage
    // Some servers send a whole completion as their only event; MiniMax repeats the whole answer behind its pieces.
    const { content, refusal, tool_calls: deltas } = choice?.delta ?? (hasOutput() ? {} : choice?.message) ?? {}
    if (content) texts.push(content)
    if (refusal) refusals.push(refusal)
    for (const delta of deltas ?? []) addCall(calls, callAt, delta)
    // Some servers send an empty reason until the last chunk.
    if (choice?.finish_reason) {
      finishReason = choice.finish_reason
      stop = { stop_reason: choice.stop_reason, matched_stop: choice.matched_stop }
    }
    if (finishReason !== undefined) return 'finished'
    return hasOutput() ? 'writing' : 'waiting'
  }
  return {
    take(data) {
      if (data === '[DONE]') {
        progress = finishReason === undefined && !hasOutput() ? 'unusable' : 'ended'
        return progress
      }
      const value = parseJsonText(data, WRITTEN)
      const failed = hasError(value) ? chunkErrorWire.safeParse(value) : undefined
      // The answer is whole: what fails behind it is not of the answer.
      if (failed !== undefined && finishReason !== undefined) return (progress = 'ended')
      if (failed?.success === true) error = { status: failed.data.error.code, data, isAfterOutput: hasOutput() }
      if (failed !== undefined) progress = 'unusable'
      else {
        const chunk = readLeniently(chunkWire, value)
        for (const field of chunk.mended) mended.add(field)
        if (chunk.value === undefined) mended.add('event')
        else progress = add(chunk.value)
      }
      return progress
    },
    get error() {
      return error
    },
    get id() {
      return id
    },
    get finishReason() {
      return finishReason
    },
    get stop() {
      return stop
    },
    get mended() {
      return [...mended]
    },
    get usage() {
      return usage
    },
    get text() {
      return texts.join('')
    },
    get refusal() {
      return refusals.join('')
    },
    get textPieces() {
      return texts.length + refusals.length
    },
    get callPieces() {
      return calls.reduce((sum, { pieces }) => sum + pieces.length, 0)
    },
    get calls() {
      return calls.map(({ id: callId, name, pieces }) => ({ id: callId, name, arguments: pieces.join('') }))
    },
  }
}

type CallDelta = NonNullable<NonNullable<NonNullable<ChunkWire['choices']>[number]['delta']>['tool_calls']>[number]

/**
 * Some servers number every call 0, or none; another id then starts another call, and without ids a name behind a call that is
 * whole. What has neither index nor id goes on with the latest call; what has the index of a call whose beginning was lost goes
 * on with no other.
 */
function addCall(calls: StreamedCall[], callAt: Map<number, StreamedCall>, delta: CallDelta): void {
  const id = delta.id ?? ''
  const index = delta.index ?? calls.length
  const known = typeof delta.index === 'number' ? callAt.get(index) : calls.at(-1)
  const isSame = known !== undefined && (id === '' || known.id === '' ? !beginsAnother(known, delta) : known.id === id)
  const call: StreamedCall = isSame ? known : { id: '', name: '', pieces: [] }
  if (!isSame) {
    calls.push(call)
    callAt.set(index, call)
  }
  if (id !== '') call.id = id
  if (call.name === '') call.name = delta.function?.name ?? ''
  if (delta.function?.arguments) call.pieces.push(delta.function.arguments)
}

/** Returns whether a delta begins another call than the known one: it names a function, and nothing can be added to the known call. */
function beginsAnother({ name: known, pieces }: StreamedCall, delta: CallDelta): boolean {
  const name = delta.function?.name ?? ''
  if (known === '' || name === '' || (name === known && !delta.function?.arguments)) return false
  if (pieces.length === 0) return name !== known
  return pieces.at(-1)?.trimEnd().endsWith('}') === true && isObject(parseJsonText(pieces.join('')))
}
