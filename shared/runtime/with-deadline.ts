/**
 * Returns what the work results in or, when it takes longer than this, what `late` returns or throws; the work then goes on
 * unobserved. With a plain timer: canceling one of node:timers/promises makes an error with a stack, for nearly every call.
 */
export async function withDeadline<Result, Late>(
  longestMs: number,
  work: Promise<Result>,
  late: () => Late,
): Promise<Result | Late> {
  const deadline = Promise.withResolvers<() => Late>()
  const timer = setTimeout(() => deadline.resolve(late), longestMs)
  try {
    const first = await Promise.race([work.then((result) => () => result), deadline.promise])
    return first()
  } finally {
    clearTimeout(timer)
  }
}
