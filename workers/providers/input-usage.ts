import type { TextUsage } from '#shared/operations/text/text-request.ts'

/**
 * Returns the counts of an input of so many tokens, of which some were read from the vendor's prompt cache or written to
 * it. Parts that a server reports beyond the whole are left out, since they decide what is charged.
 */
export function inputUsage(
  input: number,
  parts: { readonly cached?: number | null | undefined; readonly written?: number | null | undefined },
): Pick<TextUsage, 'input_tokens' | 'cached_input_tokens' | 'cache_write_tokens'> {
  const cached = Math.min(parts.cached ?? 0, input)
  const written = Math.min(parts.written ?? 0, input - cached)
  return {
    input_tokens: input,
    ...(cached === 0 ? {} : { cached_input_tokens: cached }),
    ...(written === 0 ? {} : { cache_write_tokens: written }),
  }
}
