/** The day on which the vendors' pages below were read. */
export const RETIREMENTS_READ_ON = '2026-11-22'

/**
 * Announced days of retirement, of which operators are warned, and for the test of the example files. Sources: ai.google.dev/gemini-api/docs/deprecations, developers.openai.com/api/docs/deprecations,
 * platform.claude.com/docs/en/about-claude/model-deprecations.
 */
const RETIREMENTS: Readonly<Record<string, readonly string[]>> = {
  '2026-05-12': ['dall-e-2', 'dall-e-3'],
  '2026-05-25': ['gemini-3.1-flash-lite-preview'],
  '2026-06-01': ['gemini-2.0-flash', 'gemini-2.0-flash-001', 'gemini-2.0-flash-lite', 'gemini-2.0-flash-lite-001'],
  '2026-06-15': ['claude-sonnet-4-20250514', 'claude-opus-4-20250514'],
  '2026-06-25': ['gemini-3.1-flash-image-preview', 'gemini-3-pro-image-preview'],
  '2026-10-02': ['gemini-2.5-flash-image'],
  '2026-10-23': ['gpt-image-1', 'gpt-4.1-nano', 'gpt-4', 'gpt-4-turbo', 'gpt-3.5-turbo', 'o1', 'o3-mini', 'o4-mini'],
  '2026-11-30': ['claude-sonnet-4-5', 'claude-sonnet-4-5-20250929'],
  '2026-12-01': ['gemini-2.5-pro', 'gemini-2.5-flash', 'gpt-image-1-mini', 'gpt-image-1.5', 'chatgpt-image-latest'],
  '2026-12-11': ['gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'gpt-5-pro', 'o3', 'o3-pro'],
  '2027-01-14': ['gpt-4o', 'gpt-4o-mini', 'gpt-4.1', 'gpt-4.1-mini'],
  '2027-02-26': ['whisper-1', 'gpt-4o-transcribe', 'gpt-4o-mini-transcribe'],
  '2027-04-01': ['gpt-5.1'],
  '2027-05-07': ['gemini-3.1-flash-lite'],
}

const dates = new Map(
  Object.entries(RETIREMENTS).flatMap(([day, models]) => models.map((model) => [model, new Date(day)] as const)),
)

/** Returns the announced day on which a vendor's model retires, or `undefined` when none is known. */
export function knownRetirement(upstreamModel: string): Date | undefined {
  return dates.get(upstreamModel)
}
