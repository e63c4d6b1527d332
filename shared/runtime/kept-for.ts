/**
 * Returns a reading that is shared by concurrent callers and kept for `ms` from its begin. A failure is not kept: the next
 * caller reads again.
 */
export function keptFor<Value>(ms: number, read: () => Promise<Value>): () => Promise<Value> {
  let kept: { readonly value: Promise<Value>; readonly until: number } | null = null
  return async () => {
    if (kept && performance.now() < kept.until) return await kept.value
    const reading = { value: read(), until: performance.now() + ms }
    kept = reading
    reading.value.catch(() => {
      if (kept === reading) kept = null
    })
    return await reading.value
  }
}
