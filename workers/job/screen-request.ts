import type { Failure } from '#shared/jobs/job.ts'
import type { Screener } from '../screening/screener.ts'

/** Screens the texts of a request. Returns the failure of the job, or `null` when it passed. */
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
