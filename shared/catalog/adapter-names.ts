/**
 * The adapters that a deployment can name. The list is shared because the API checks the deployments file too; the
 * workers' registry is a record of these names, so a missing or surplus adapter does not compile.
 */
export const ADAPTER_NAMES = ['gemini', 'openai-compatible', 'elevenlabs', 'anthropic'] as const

export type AdapterName = (typeof ADAPTER_NAMES)[number]
