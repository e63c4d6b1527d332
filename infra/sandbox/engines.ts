import { z } from 'zod'
import { hasPocketsphinx } from './upstream/hearing/pocketsphinx.ts'

/** A server of the caller with the paths of OpenAI's API. */
export interface Engine {
  /** With `/v1`. */
  readonly url: string
  readonly model: string
}

/** What does the work behind the sandbox's models. */
export interface Engines {
  readonly voice: 'flite' | 'simulated'
  readonly hearing: 'pocketsphinx' | 'simulated' | Engine
  readonly text: 'simulated' | Engine
  readonly image: 'simulated' | Engine
}

export const SIMULATED: Engines = { voice: 'simulated', hearing: 'simulated', text: 'simulated', image: 'simulated' }

/**
 * The longest recording that is sold where pocketsphinx hears: it takes half of the recording's time on an idle core, twice of
 * it on a very busy one, and must end within a provider call (270 s, PROVIDER_TIMEOUT_SECONDS). The client cuts longer ones.
 */
export const LONGEST_FOR_POCKETSPHINX_MS = 120_000

/** For the help of the programs that read them. */
export const ENGINE_SETTINGS = `\
  HEARING_URL         your own engine with OpenAI's paths, such as whisper.cpp's server (default: pocketsphinx,
                      if it is installed, else simulated); HEARING_MODEL: its model (default: the first it lists)
  TEXT_URL            the same for text, such as llama.cpp's server or Ollama (default: simulated); TEXT_MODEL
  IMAGE_URL           the same for images, such as LocalAI (default: simulated); IMAGE_MODEL`

const url = z.url({ protocol: /^https?$/, error: 'an http or https URL' }).optional()
const model = z.string().min(1).optional()
const environmentSchema = z.object({
  HEARING_URL: url,
  HEARING_MODEL: model,
  TEXT_URL: url,
  TEXT_MODEL: model,
  IMAGE_URL: url,
  IMAGE_MODEL: model,
})

/**
 * Finds the real engines: flite always speaks; pocketsphinx hears if it is installed; servers that the caller names do what they
 * are named for. Throws when one of those does not answer.
 */
export async function findEngines(environment: NodeJS.ProcessEnv = process.env): Promise<Engines> {
  const parsed = environmentSchema.safeParse(environment)
  if (!parsed.success) throw new Error(z.prettifyError(parsed.error))
  const named = parsed.data
  const [hearing, text, image] = await Promise.all([
    engineAt('HEARING_URL', named.HEARING_URL, named.HEARING_MODEL),
    engineAt('TEXT_URL', named.TEXT_URL, named.TEXT_MODEL),
    engineAt('IMAGE_URL', named.IMAGE_URL, named.IMAGE_MODEL),
  ])
  return {
    voice: 'flite',
    hearing: hearing ?? ((await hasPocketsphinx()) ? 'pocketsphinx' : 'simulated'),
    text: text ?? 'simulated',
    image: image ?? 'simulated',
  }
}

const LISTING_TIMEOUT_MS = 5_000
const listing = z.object({ data: z.tuple([z.object({ id: z.string() })], z.unknown()) })

/** Returns the engine at a URL with or without `/v1`, and the first model that it lists unless one is named. */
async function engineAt(setting: string, given: string | undefined, named: string | undefined) {
  if (given === undefined) return undefined
  const base = `${given.replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`
  const answer = await fetch(`${base}/models`, { signal: AbortSignal.timeout(LISTING_TIMEOUT_MS) }).catch(() => {
    throw new Error(`${setting}: nothing answers at ${base}`)
  })
  const listed = listing.safeParse(await answer.json().catch(() => undefined))
  // Servers with a single model, such as whisper.cpp's, list none and ignore the name.
  return { url: base, model: named ?? listed.data?.data[0].id ?? 'default' } satisfies Engine
}

/** Measured by `test/system/audio/real-engines.test.ts` and on the samples. */
const ENGLISH_WORDS_WRONG =
  '4 to 9 of 100 words wrong on plain sentences of these voices, 36 on the samples, 37 on a book read aloud'
const OWN_EARS = 'HEARING_URL=http://… (whisper.cpp’s server, Speaches, …)'

/** Returns a line for each kind of work: who does it, how well, and how to get better. */
export function describeEngines({ voice, hearing, text, image }: Engines) {
  const made = (kind: string, setting: string, engine: 'simulated' | Engine) =>
    engine === 'simulated' ? `simulated: ${kind}; for real ${setting}=http://…` : describe(engine)
  return {
    voice: voice === 'flite' ? 'real: flite, in English only' : 'simulated: silence',
    hearing:
      hearing === 'simulated'
        ? `simulated: reads the scripts of the samples, and of yours the length; for real install pocketsphinx (${ENGLISH_WORDS_WRONG}), or ${OWN_EARS}`
        : hearing === 'pocketsphinx'
          ? `real: pocketsphinx, English only, up to ${LONGEST_FOR_POCKETSPHINX_MS / 60_000} min a recording; ${ENGLISH_WORDS_WRONG}; for better ${OWN_EARS}`
          : describe(hearing),
    text: made('sentences about your request', 'TEXT_URL', text),
    images: made('a colored square', 'IMAGE_URL', image),
  } as const
}

function describe({ url: base, model: name }: Engine): string {
  return `real: your ${name} at ${base}`
}
