import { z } from 'zod'
import type { Failure } from '#shared/jobs/job.ts'
import type { SendHttp } from '../providers/http.ts'

/** The verdict. `unavailable` fails the job uncharged with a 503: unscreened input never reaches a provider. */
type Screening =
  | { outcome: 'passed' }
  | { outcome: 'rejected'; reason: string }
  | { outcome: 'unavailable'; reason: string }

/** Port for safety screening, called before the provider. */
export interface Screener {
  screen(texts: readonly string[]): Promise<Screening>
}

/** Passes everything, for operators whose providers do their own screening. */
export const noScreening: Screener = { screen: async () => ({ outcome: 'passed' }) }

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

const TIMEOUT_MS = 10_000
const MAXIMUM_RESPONSE_BYTES = 1024 * 1024

/** OpenAI's moderation response; `results` has one entry for each input. */
const answerSchema = z.object({
  results: z.array(
    z.object({ flagged: z.boolean(), categories: z.record(z.string(), z.boolean().nullable()).default({}) }),
  ),
})

/**
 * Creates a screener that calls an OpenAI-style moderation endpoint (`POST {baseUrl}/moderations`, OpenAI API
 * reference).
 */
export function createModerationScreener(options: {
  baseUrl: string
  apiKey: string | undefined
  model: string | undefined
  http: SendHttp
}): Screener {
  const { baseUrl, apiKey, model, http } = options
  return {
    screen: async (texts) => {
      if (texts.length === 0) return { outcome: 'passed' }
      const exchange = await http(
        {
          url: `${baseUrl.replace(/\/$/, '')}/moderations`,
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
          },
          body: JSON.stringify({ input: texts, ...(model === undefined ? {} : { model }) }),
        },
        { timeoutMs: TIMEOUT_MS, maximumResponseBytes: MAXIMUM_RESPONSE_BYTES },
      )
      if (exchange.outcome !== 'response') return { outcome: 'unavailable', reason: exchange.reason }
      if (exchange.status !== 200) return { outcome: 'unavailable', reason: `status ${exchange.status}` }
      return verdictOf(exchange.bytes, texts.length)
    },
  }
}

function verdictOf(bytes: Uint8Array, inputs: number): Screening {
  let answer: z.infer<typeof answerSchema>
  try {
    answer = answerSchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')))
  } catch {
    // The body may quote the input, so it never enters the reason.
    return { outcome: 'unavailable', reason: 'malformed response' }
  }
  const flagged = answer.results.filter((result) => result.flagged)
  if (flagged.length === 0)
    return answer.results.length === inputs
      ? { outcome: 'passed' }
      : { outcome: 'unavailable', reason: `${answer.results.length} verdicts for ${inputs} texts` }
  const categories = flagged.flatMap((result) =>
    Object.entries(result.categories).flatMap(([name, is]) => (is ? [name] : [])),
  )
  return { outcome: 'rejected', reason: [...new Set(categories)].join(', ') || 'flagged' }
}
