import { readFileSync } from 'node:fs'

/**
 * Imported before a program, it shifts the clock by CLOCK_SHIFT_MS, as on a machine without NTP, or by the current
 * content of CLOCK_SHIFT_FILE, in which case the program's monotonic clock and long timers follow the shifted clock too.
 */
const { CLOCK_SHIFT_MS: fixedMs = '0', CLOCK_SHIFT_FILE: file } = process.env
const shiftMs = () => Number(file === undefined ? fixedMs : readFileSync(file, 'utf8'))
const { now } = Date
Date.now = () => now() + shiftMs()
globalThis.Date = new Proxy(Date, {
  construct: (target, input: [], newTarget) =>
    Reflect.construct(target, input.length === 0 ? [Date.now()] : input, newTarget),
})

/** Shorter timers are left alone. */
const LONG_MS = 30_000
const CHECK_EVERY_MS = 20

if (file !== undefined) {
  const sinceStart = performance.now.bind(performance)
  performance.now = () => sinceStart() + shiftMs()
  const { setTimeout: startTimer, clearTimeout: stopTimer } = globalThis
  const long = new Map<unknown, { readonly endsAt: number; readonly end: () => void }>()
  const stop: typeof clearTimeout = (timer) => {
    long.delete(timer)
    stopTimer(timer)
  }
  const start = (end: () => void, delayMs?: number, ...given: []) => {
    const timer = startTimer(end, delayMs, ...given)
    if (delayMs !== undefined && delayMs >= LONG_MS) long.set(timer, { endsAt: Date.now() + delayMs, end })
    return timer
  }
  const runDue = () => {
    for (const [timer, { endsAt, end }] of long) {
      if (Date.now() < endsAt) continue
      stop(timer as NodeJS.Timeout)
      end()
    }
  }
  globalThis.setTimeout = Object.assign(start, startTimer)
  globalThis.clearTimeout = stop
  setInterval(runDue, CHECK_EVERY_MS).unref()
}
