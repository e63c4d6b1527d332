import type { AdapterName } from '#shared/catalog/adapter-names.ts'
import type { Adapter } from './adapter.ts'
import { anthropic } from './anthropic/adapter.ts'
import { elevenlabs } from './elevenlabs/adapter.ts'
import { gemini } from './gemini/adapter.ts'
import { openAiCompatible } from './openai-compatible/adapter.ts'

/**
 * The adapters by their name in the deployments file. A new provider is a folder with an `adapter.ts`, its name in
 * `ADAPTER_NAMES` and a line here; the compiler reports a missing one.
 */
export const adapters: Readonly<Record<AdapterName, Adapter>> = {
  gemini,
  'openai-compatible': openAiCompatible,
  elevenlabs,
  anthropic,
}
