import { availableParallelism } from 'node:os'
import type { DeploymentsFileInput } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { importChangedFile } from '#shared/ledger/configuration/import-files.ts'
import { withConnection } from '#shared/ledger/with-connection.ts'
import { type Engine, type Engines, LONGEST_FOR_POCKETSPHINX_MS, SIMULATED } from './engines.ts'

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
  /** By default all is simulated. */
  readonly engines?: Engines | undefined
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
 *
 * What a real engine does has its deployment alone: a simulated answer in its place would go unnoticed.
 */
export function sandboxDeployments(options: SandboxDeploymentsOptions): DeploymentsFileInput {
  const { upstreamUrl, apiKeyEnv: api_key_env, models, voices, engines = SIMULATED } = options
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
  const simulatedText = engines.text === 'simulated' ? text : []
  const simulatedImage = engines.image === 'simulated' ? image : []
  const simulatedHearing = engines.hearing === 'simulated' ? transcription : []
  const deployments = [
    ...[...simulatedText, ...simulatedImage].map((id) => ({
      ...gemini,
      name: id.replace(/^textmodel/, 'gemini'),
      upstream_model: id.replace(/^textmodel/, 'gemini'),
      serves: [id],
    })),
    {
      ...anthropic,
      name: 'anthropic',
      upstream_model: 'claude-simulated',
      serves: simulatedText.filter((id) => id === MODEL_OF_THREE_VENDORS),
    },
    { ...open, name: 'open-text', upstream_model: 'simulated-chat', serves: simulatedText },
    {
      ...elevenlabs,
      name: 'elevenlabs-speech',
      upstream_model: 'eleven_flash_v2_5',
      serves: speech,
      voices: voicesAs('eleven'),
    },
    { ...open, name: 'open-speech', upstream_model: 'simulated-speech', serves: speech, voices: voicesAs('open') },
    { ...elevenlabs, name: 'elevenlabs-transcription', upstream_model: 'scribe_v2', serves: simulatedHearing },
    { ...open, name: 'open-transcription', upstream_model: 'simulated-whisper', serves: simulatedHearing },
  ]
  const pocketsphinx = {
    ...open,
    name: 'pocketsphinx',
    upstream_model: 'pocketsphinx',
    serves: transcription,
    max_concurrency: Math.max(1, Math.floor(availableParallelism() / 2)),
  }
  return {
    deployments: [
      ...deployments
        .filter(({ serves }) => serves.length > 0)
        .map((deployment) => ({ ...deployment, prices: SIMULATED_PRICES })),
      ...(engines.hearing === 'pocketsphinx' ? [pocketsphinx] : []),
      ...ownDeployments('own-hearing', engines.hearing, transcription),
      ...ownDeployments('own-text', engines.text, text),
      ...ownDeployments('own-image', engines.image, image),
    ],
  }
}

/** Returns the deployment of the caller's own engine, whose cost and list of models are unknown. */
function ownDeployments(name: string, engine: Engine | string, serves: readonly string[]) {
  if (typeof engine === 'string' || serves.length === 0) return []
  const { url: base_url, model: upstream_model } = engine
  // The older field is the one that every server knows.
  const options = { output_limit: 'max_tokens' }
  const adapter = 'openai-compatible' as const
  return [{ name, adapter, base_url, upstream_model, serves: [...serves], look_up_model: false, options }]
}

/**
 * Publishes the generated deployments, whose upstream has another port at each start of the sandbox, and what the engines make
 * of the catalog. What an operator published is in force until one of them changes.
 */
export async function importConfiguration(
  databaseUrl: string,
  deployments: DeploymentsFileInput,
  engines: Engines | undefined,
): Promise<void> {
  const author = { operator: 'sandbox', source: 'command' } as const
  const reason = 'start of the sandbox'
  await withConnection({ connectionString: databaseUrl, applicationName: 'farebox sandbox' }, async (pool) => {
    await importChangedFile(pool, author, { kind: 'deployments', content: deployments, reason })
    if (engines !== undefined)
      await importChangedFile(pool, author, { kind: 'catalog', content: catalogFor(engines), reason })
  })
}

/** Returns the overrides of the catalog: longer recordings than can be heard are refused before their price. */
function catalogFor({ hearing }: Engines) {
  if (hearing !== 'pocketsphinx') return { models: {} }
  const transcription = publishedCatalog.models.filter(({ category }) => category === 'speech_to_text')
  const limit = { maximum_audio_duration_ms: LONGEST_FOR_POCKETSPHINX_MS }
  return { models: Object.fromEntries(transcription.map(({ id }) => [id, limit])) }
}
