import { askForJson } from '../wire/ask-service.ts'
import type { FareboxError } from '../wire/farebox-error.ts'
import { requireSafeUrl } from '../wire/safe-url.ts'
import type { ModelList, VoiceList } from '../wire/schemas.ts'
import { nearNames } from './near-names.ts'

export type Model = ModelList['data'][number]
export type Category = Model['category']

/** Where the lists of a service are read. */
export interface ListAccess {
  readonly baseUrl: string
  readonly signal?: AbortSignal | undefined
  /** Called before each wait. */
  readonly onWait?: ((error: FareboxError, waitMs: number) => void) | undefined
}

/** The service lists no model or voice of this name, or none at all. */
export class UnknownName extends Error {
  override readonly name = 'UnknownName'
  readonly code = 'unknown_model'
}

const ABILITIES: Readonly<Record<Category, string>> = {
  text_generation: 'write text',
  image_generation: 'make images',
  text_to_speech: 'speak',
  speech_to_text: 'transcribe',
}

/**
 * Returns the model that was asked for, or the first one of the category that the service lists. Throws `UnknownName`,
 * which suggests similar names, when there is no such model.
 */
export async function findModel(access: ListAccess, category: Category, asked: string | undefined): Promise<Model> {
  const { data } = await readList<ModelList>(access, '/v1/models')
  const able = data.filter((model) => model.category === category)
  const chosen = asked === undefined ? able[0] : able.find(({ id }) => id === asked)
  if (chosen !== undefined) return chosen
  const ability = ABILITIES[category]
  if (asked === undefined) throw new UnknownName(`No model of the service can ${ability} at present.`)
  const isOfAnotherKind = data.some(({ id }) => id === asked)
  const problem = isOfAnotherKind ? `${asked} does not ${ability}.` : `There is no model ${JSON.stringify(asked)}.`
  throw unknownName(problem, asked, able.map(nameOf))
}

/** Returns the voices of a model. */
export async function voicesOf(access: ListAccess, model: string): Promise<VoiceList['data']> {
  const { data } = await readList<VoiceList>(access, '/v1/audio/voices')
  return data.filter(({ models }) => models.includes(model))
}

/** Throws `UnknownName`, which suggests similar names, unless the model has the voice. */
export async function findVoice(access: ListAccess, model: string, voice: string): Promise<void> {
  const voices = (await voicesOf(access, model)).map(nameOf)
  if (!voices.includes(voice)) throw unknownName(`${model} has no voice ${JSON.stringify(voice)}.`, voice, voices)
}

/** Reads one of the lists that the service publishes. */
export async function readList<List>({ baseUrl, signal, onWait }: ListAccess, path: string): Promise<List> {
  requireSafeUrl(baseUrl)
  return await askForJson<List>({ fetch, now: Date.now }, new URL(path, baseUrl).href, { signal, onWait })
}

function nameOf({ id }: { readonly id: string }): string {
  return id
}

function unknownName(problem: string, asked: string, known: readonly string[]): UnknownName {
  const near = nearNames(asked, known)
  const suggestion = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `There are: ${known.join(', ')}.`
  return new UnknownName(`${problem} ${suggestion}`)
}
