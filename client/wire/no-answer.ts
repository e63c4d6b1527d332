import { FareboxError, type MoneyState } from './farebox-error.ts'

/** Nothing arrived, and nothing was taken, for as long as was waited. */
export class NoAnswer extends FareboxError {
  override readonly name = 'NoAnswer'
  readonly silentMs: number

  constructor(url: string, silentMs: number, money: MoneyState) {
    super({
      code: 'no_answer',
      problem: `No answer from ${new URL(url).origin} for ${Math.round(silentMs / 1000)} s.`,
      money,
      advice: 'Repeat the call with the same key: it is charged at most once.',
    })
    this.silentMs = silentMs
  }
}

/** Ends an exchange in which nothing has moved for a time: neither a piece of the request nor one of the answer. */
export function watchSilence(allowedMs: number): { signal: AbortSignal; broken: () => void; end: () => void } {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(), allowedMs)
  return {
    signal: controller.signal,
    broken: () => {
      timer.refresh()
    },
    end: () => clearTimeout(timer),
  }
}

/** A blob whose pieces are reported when they are taken. `fetch` knows its size as that of any other. */
export class WatchedBlob extends Blob {
  readonly #onPiece: () => void

  constructor(blob: Blob, onPiece: () => void) {
    super([blob], { type: blob.type })
    this.#onPiece = onPiece
  }

  override stream(): ReturnType<Blob['stream']> {
    const reader = super.stream().getReader()
    return new ReadableStream({
      type: 'bytes',
      pull: async (controller) => {
        const { done, value } = await reader.read()
        this.#onPiece()
        if (value !== undefined) controller.enqueue(value)
        if (done) {
          controller.close()
          controller.byobRequest?.respond(0)
        }
      },
      cancel: (reason) => reader.cancel(reason),
    }) as ReturnType<Blob['stream']>
  }
}
