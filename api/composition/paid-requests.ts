import type { PaidRequestHandlers } from '../paid-request/handle-paid-request.ts'
import { createJobs, type JobContext } from '../paid-request/jobs.ts'
import { createPayments, type PaymentContext } from '../paid-request/payments.ts'
import { createQuotes, type QuotesContext } from '../paid-request/quotes.ts'
import { createRequests, type RequestContext } from '../request/effective-request.ts'

/** Everything that paid requests are handled with. */
export type PaidRequestParts = RequestContext & QuotesContext & PaymentContext & JobContext

/** Composes those who handle paid requests. */
export function composePaidRequests(parts: PaidRequestParts): PaidRequestHandlers {
  return {
    requests: createRequests(parts),
    quotes: createQuotes(parts),
    payments: createPayments(parts),
    jobs: createJobs(parts),
    tracer: parts.tracer,
  }
}
