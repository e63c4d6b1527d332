import type { BatchEvent } from '../../batch/types.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Exchange } from '../tool.ts'

/** Clients end a call that reports nothing for a minute. */
const HEARTBEAT_MS = 10_000
/** What a report adds that follows no file, since each report must be higher than the one before. */
const STEP = 0.001

/**
 * Reports the progress of a batch: each file counts once when it is priced and once when it is transcribed. Names of
 * files are texts of others, so no report has any.
 */
export class BatchProgressReport {
  readonly #exchange: Pick<Exchange, 'progress'>
  readonly #timer: NodeJS.Timeout
  #reported = 0
  #done = 0
  #total: number | undefined
  #message = 'looking for recordings'

  constructor(exchange: Pick<Exchange, 'progress'>) {
    this.#exchange = exchange
    this.#timer = setInterval(() => this.#report(), HEARTBEAT_MS)
    this.#report()
  }

  step(message: string): void {
    this.#message = message
    this.#report()
  }

  onEvent(event: BatchEvent): void {
    if (event.event === 'planned') {
      this.#total = 2 * event.of
      this.#done = event.done
      this.step(`measured ${event.done} of ${event.of}`)
    } else if (event.event === 'progress') {
      const { finished, skipped, failed, charged } = event.progress
      const files = (this.#total ?? 0) / 2
      const done = files + finished + skipped + failed
      if (done <= this.#done) return
      this.#done = done
      this.step(`${finished + skipped} of ${files} transcribed, ${failed} failed, charged ${formatUsdc(charged)} USDC`)
    } else if (event.event === 'waiting') this.step('waiting for the service')
  }

  end(): void {
    clearInterval(this.#timer)
  }

  #report(): void {
    this.#reported = Math.max(this.#reported + STEP, this.#done)
    this.#exchange.progress(this.#reported, this.#total, this.#message)
  }
}
