import type { Router } from '../providers/route.ts'

/** As long as accepted work may wait before the API rejects new work of its kind. */
const LONGEST_WAIT_MS = 60_000

/**
 * Waits while the only obstacle to a call is that every deployment of the model has as many calls in flight as it may
 * have: the caller has paid for an answer, and a call may start as soon as one of those ends.
 */
export async function awaitDeployment(
  router: Pick<Router, 'whenFree'>,
  publicModel: string,
  signal: AbortSignal,
): Promise<void> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_WAIT_MS)])
  for (;;) {
    const free = limit.aborted ? null : router.whenFree(publicModel, limit)
    if (!free) return
    await free
  }
}
