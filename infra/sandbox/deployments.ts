import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { importChangedFile } from '#shared/ledger/configuration/import-files.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'

/** The worker's environment variable that the deployments file names. */
export const UPSTREAM_KEY = 'SIMULATED_UPSTREAM_KEY'

/** The required properties of the catalog's models. */
interface ServedModel {
  readonly id: string
  readonly category: 'text_generation' | 'image_generation' | 'text_to_speech' | 'speech_to_text'
}

export interface SandboxDeploymentsOptions {
  /** Origin of the simulated vendors. */
  readonly upstreamUrl: string
  /** The worker's environment variable with the key that the simulated vendors accept. */
  readonly apiKeyEnv: string
  readonly models: readonly ServedModel[]
  /** Public voice aliases. */
  readonly voices: readonly string[]
}

/** What the simulated vendors bill: less than the lowest published prices. */
const SIMULATED_PRICES = {
  input_per_million_tokens: '0.08',
  cached_input_per_million_tokens: '0.008',
  cache_write_per_million_tokens: '0.1',
  output_per_million_tokens: '0.3',
  price_per_image_usd: '0.02',
  price_per_thousand_characters_usd: '0.03',
  price_per_audio_hour_usd: '0.08',
  as_of: '2026-11-26',
  source: 'the simulated vendors of the sandbox',
} as const

/** The public model that three vendors serve. */
const MODEL_OF_THREE_VENDORS = 'textmodel-2.5-pro'

/**
 * Returns the sandbox's deployments file. Every model except the image model has a first deployment and a fallback in another
 * vendor's wire format, so that failover can be tried. One text model has a third deployment in between.
 */
export function sandboxDeployments(options: SandboxDeploymentsOptions): DeploymentsFileInput {
  const { upstreamUrl, apiKeyEnv: api_key_env, models, voices } = options
  const idsOf = (category: ServedModel['category']) =>
    models.filter((model) => model.category === category).map(({ id }) => id)
  const voicesAs = (prefix: string) => Object.fromEntries(voices.map((alias) => [alias, `${prefix}-${alias}`]))
  const gemini = { adapter: 'gemini', base_url: upstreamUrl, api_key_env, priority: 0 } as const
  const elevenlabs = { adapter: 'elevenlabs', base_url: upstreamUrl, api_key_env, priority: 0 } as const
  const anthropic = { adapter: 'anthropic', base_url: upstreamUrl, api_key_env, priority: 1 } as const
  const open = { adapter: 'openai-compatible', base_url: `${upstreamUrl}/v1`, api_key_env, priority: 2 } as const
  const [text, image, speech, transcription] = [
    idsOf('text_generation'),
    idsOf('image_generation'),
    idsOf('text_to_speech'),
    idsOf('speech_to_text'),
  ]
  const deployments = [
    ...[...text, ...image].map((id) => ({
      ...gemini,
      name: id.replace(/^textmodel/, 'gemini'),
      upstream_model: id.replace(/^textmodel/, 'gemini'),
      serves: [id],
    })),
    {
      ...anthropic,
      name: 'anthropic',
      upstream_model: 'claude-simulated',
      serves: text.filter((id) => id === MODEL_OF_THREE_VENDORS),
    },
    { ...open, name: 'open-text', upstream_model: 'simulated-chat', serves: text },
    {
      ...elevenlabs,
      name: 'elevenlabs-speech',
      upstream_model: 'eleven_flash_v2_5',
      serves: speech,
      voices: voicesAs('eleven'),
    },
    { ...open, name: 'open-speech', upstream_model: 'simulated-speech', serves: speech, voices: voicesAs('open') },
    { ...elevenlabs, name: 'elevenlabs-transcription', upstream_model: 'scribe_v2', serves: transcription },
    { ...open, name: 'open-transcription', upstream_model: 'simulated-whisper', serves: transcription },
  ]
  return {
    deployments: deployments
      .filter(({ serves }) => serves.length > 0)
      .map((deployment) => ({ ...deployment, prices: SIMULATED_PRICES })),
  }
}

/**
 * Publishes the generated deployments, whose upstream has another port at each start of the sandbox. What an operator
 * published is in force until then.
 */
export async function importDeployments(databaseUrl: string, deployments: DeploymentsFileInput): Promise<void> {
  await withConnection({ connectionString: databaseUrl, applicationName: 'farebox sandbox' }, async (pool) => {
    await importChangedFile(
      pool,
      { operator: 'sandbox', source: 'command' },
      { kind: 'deployments', content: deployments, reason: 'start of the sandbox' },
    )
  })
}
