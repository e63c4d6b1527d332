import type { Exchange } from '../tool.ts'

/** Clients end a call that reports nothing for a minute. */
const HEARTBEAT_MS = 10_000

/** Reports that a call of unknown length goes on. */
export interface Work {
  step(message: string): void
  end(): void
}

/** Begins to report the work of a call: at each step, and every few seconds. */
export function reportWork(exchange: Pick<Exchange, 'progress'>): Work {
  let [done, message] = [0, 'asking for the price']
  const report = () => exchange.progress(++done, undefined, message)
  const timer = setInterval(report, HEARTBEAT_MS)
  report()
  return {
    step: (next) => {
      message = next
      report()
    },
    end: () => clearInterval(timer),
  }
}
