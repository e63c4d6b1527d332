import type { Failure } from '#shared/jobs/job-store.ts'
import type { Screener } from '../screening/screener.ts'

/** Asks safety screening about a request's texts: the failure it ends in, or `null` when it may go on. */
export async function screenRequest(screener: Screener, texts: readonly string[]): Promise<Failure | null> {
  const screening = await screener.screen(texts)
  switch (screening.outcome) {
    case 'passed':
      return null
    case 'rejected':
      return { code: 'content_rejected', reason: screening.reason }
    case 'unavailable':
      return { code: 'screening_unavailable', reason: screening.reason }
  }
}
