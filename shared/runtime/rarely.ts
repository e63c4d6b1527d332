/** How soon the same is said again. */
const REPEAT_MS = 30_000

/** Returns `say` for what is noticed over and over: the same, by `textOf`, is passed on at once and then every half minute. */
export function rarely<Said>(say: (said: Said) => void, textOf: (said: Said) => string): (said: Said) => void {
  const saidAt = new Map<string, number>()
  return (said) => {
    const now = Date.now()
    for (const [text, at] of saidAt) if (now - at >= REPEAT_MS) saidAt.delete(text)
    const text = textOf(said)
    if (saidAt.has(text)) return
    saidAt.set(text, now)
    say(said)
  }
}
