interface Timed {
  readonly start?: number | null | undefined
  readonly end?: number | null | undefined
}

/** Returns whether any item says when it was: of words without any time there is nothing to tell. */
export function haveTimes(items: readonly Timed[]): boolean {
  return items.some(({ start, end }) => (start ?? end ?? undefined) !== undefined)
}

/**
 * Fills in times that the vendor left null. A missing start becomes the previous end and a missing end the next start,
 * which are the tightest bounds in the answer.
 */
export function withTimes<Item extends Timed>(items: readonly Item[], earliestSeconds: number) {
  let previousEndSeconds = earliestSeconds
  return items.map((item, index) => {
    const startSeconds = item.start ?? previousEndSeconds
    const endSeconds = Math.max(startSeconds, item.end ?? items[index + 1]?.start ?? startSeconds)
    previousEndSeconds = endSeconds
    return { item, startSeconds, endSeconds }
  })
}
