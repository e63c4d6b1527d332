/** Imported before a program, it moves the machine's clock by CLOCK_SHIFT_MS, as a machine without NTP would have it. */
const shiftMs = Number(process.env['CLOCK_SHIFT_MS'] ?? 0)
const { now } = Date
Date.now = () => now() + shiftMs
globalThis.Date = new Proxy(Date, {
  construct: (target, input: [], newTarget) =>
    Reflect.construct(target, input.length === 0 ? [Date.now()] : input, newTarget),
})
