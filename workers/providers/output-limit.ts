import { z } from 'zod'
import { emptyOutput } from './failures.ts'
import type { TextProvider } from './provider.ts'

/** An option of every adapter with text: the most output tokens that the upstream model accepts. */
export const maximumOutputTokensSchema = z.int().min(1).optional()

/**
 * Returns the provider with output limits that the upstream model accepts. Vendors reject a higher one, although few
 * answers come near it; one that does ends with finish reason `length`. Without any output it is a failure: the payer
 * did not choose the lower limit that ended it.
 */
export function withinOutputLimit(provider: TextProvider, maximumOutputTokens: number | undefined): TextProvider {
  if (maximumOutputTokens === undefined) return provider
  return {
    async generateText(request, options) {
      if (request.max_output_tokens <= maximumOutputTokens) return provider.generateText(request, options)
      const outcome = await provider.generateText({ ...request, max_output_tokens: maximumOutputTokens }, options)
      if (outcome.outcome === 'failed') return outcome
      const { text, refusal, tool_calls: calls, finish_reason: reason } = outcome.output
      const hasOutput = (text ?? '').trim() !== '' || refusal !== null || calls.length > 0
      if (hasOutput || reason !== 'length') return outcome
      const { vendorRequestId } = outcome
      return {
        ...emptyOutput('HTTP 200 without output within the deployment’s limit'),
        ...(vendorRequestId === undefined ? {} : { vendorRequestId }),
      }
    },
  }
}
