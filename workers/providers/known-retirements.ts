/** The day on which the vendors' texts below were read. */
export const RETIREMENTS_READ_ON = '2026-12-01'

/**
 * Announced days of retirement, of which operators are warned, and for the test of the example files; by the domain of the
 * vendor that announced them. Elsewhere the same name is another's: clouds have days of their own, and local servers call
 * what they have `whisper-1`. Sources: ai.google.dev/gemini-api/docs/deprecations; npm packages `openai` 7.59,
 * resources/shared.d.ts, audio/*.d.ts and beta/responses, and `@anthropic-ai/sdk` 1.14, internal/data/deprecated-models.js;
 * developers.openai.com/api/docs/deprecations; platform.claude.com/docs/en/about-claude/model-deprecations;
 * elevenlabs.io/docs/changelog/2026/6/8.
 */
const RETIREMENTS: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'generativelanguage.googleapis.com': {
    '2026-05-25': ['gemini-3.1-flash-lite-preview'],
    '2026-06-01': ['gemini-2.0-flash', 'gemini-2.0-flash-001', 'gemini-2.0-flash-lite', 'gemini-2.0-flash-lite-001'],
    '2026-06-25': ['gemini-3.1-flash-image-preview', 'gemini-3-pro-image-preview'],
    '2026-10-02': ['gemini-2.5-flash-image'],
    '2026-12-01': ['gemini-2.5-pro', 'gemini-2.5-flash'],
    '2027-05-07': ['gemini-3.1-flash-lite'],
  },
  'openai.com': {
    '2026-05-12': ['dall-e-2', 'dall-e-3'],
    '2026-07-23': [
      'gpt-5.1-chat-latest',
      'gpt-5-chat-latest',
      'gpt-4o-search-preview',
      'gpt-4o-mini-search-preview',
      'gpt-4o-mini-tts-2025-03-20',
    ],
    '2026-08-10': ['gpt-5.3-chat-latest', 'gpt-5.2-chat-latest'],
    '2026-10-23': [
      'gpt-image-1',
      'gpt-4.1-nano',
      'gpt-4',
      'gpt-4-turbo',
      'gpt-4-1106-preview',
      'gpt-4-0613',
      'gpt-4o-2024-05-13',
      'gpt-3.5-turbo',
      'gpt-3.5-turbo-0125',
      'o1',
      'o1-pro',
      'o3-mini',
      'o4-mini',
    ],
    '2026-12-01': ['gpt-image-1-mini', 'gpt-image-1.5', 'chatgpt-image-latest'],
    '2026-12-11': ['gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'gpt-5-pro', 'o3', 'o3-pro'],
    '2027-01-06': ['tts-1', 'tts-1-hd', 'gpt-4o-mini-tts'],
    '2027-01-14': ['gpt-4o', 'gpt-4o-mini', 'gpt-4.1', 'gpt-4.1-mini'],
    '2027-02-26': ['whisper-1', 'gpt-4o-transcribe', 'gpt-4o-mini-transcribe', 'gpt-4o-transcribe-diarize'],
    '2027-04-01': ['gpt-5.1', 'gpt-5.4-nano'],
  },
  'anthropic.com': {
    '2026-06-15': ['claude-sonnet-4', 'claude-opus-4'],
    '2026-11-30': ['claude-sonnet-4-5'],
    '2027-01-22': ['claude-opus-4-5'],
  },
  'elevenlabs.io': {
    '2026-07-09': ['eleven_monolingual_v1', 'eleven_multilingual_v1', 'scribe_v1'],
  },
}

/** What OpenAI and Anthropic append to the name of a snapshot, which retires with its model unless it has a day of its own. */
const SNAPSHOT_DAY = /-\d{4}-?\d{2}-?\d{2}$/

/** Returns the day on which the vendor at this address retires a model, or `undefined` when none is known. */
export function knownRetirement(baseUrl: string, upstreamModel: string): Date | undefined {
  const host = `.${new URL(baseUrl).hostname}`
  const [, days = {}] = Object.entries(RETIREMENTS).find(([domain]) => host.endsWith(`.${domain}`)) ?? []
  const dayOf = (model: string) => Object.keys(days).find((day) => days[day]?.includes(model))
  const day = dayOf(upstreamModel) ?? dayOf(upstreamModel.replace(SNAPSHOT_DAY, ''))
  return day === undefined ? undefined : new Date(day)
}
