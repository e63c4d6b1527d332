import { askForJson } from '../../../wire/ask-service.ts'
import { requireSafeUrl } from '../../../wire/safe-url.ts'
import type { ModelList, VoiceList } from '../../../wire/schemas.ts'
import type { CommandContext } from '../../run.ts'
import { requireUrl } from '../../settings.ts'
import { UsageError } from '../../usage-error.ts'
import { nearNames } from './near-names.ts'
import { noteWait } from './notes.ts'

type Model = ModelList['data'][number]
type Category = Model['category']

const ABILITIES: Readonly<Record<Category, string>> = {
  text_generation: 'write text',
  image_generation: 'make images',
  text_to_speech: 'speak',
  speech_to_text: 'transcribe',
}

/** Returns the URL of the service. Throws unless it is named and safe to send to. */
function serviceUrl({ settings }: Pick<CommandContext, 'settings'>): string {
  const baseUrl = requireUrl(settings)
  requireSafeUrl(baseUrl)
  return baseUrl
}

/**
 * Returns the model that was asked for, or the first one of the category that the service lists. Throws a `UsageError`
 * that suggests similar names when there is no such model.
 */
export async function chooseModel(
  context: CommandContext,
  category: Category,
  asked: string | undefined,
): Promise<Model> {
  const { data } = await readList<ModelList>(context, '/v1/models')
  const able = data.filter((model) => model.category === category)
  const chosen = asked === undefined ? able[0] : able.find(({ id }) => id === asked)
  if (chosen !== undefined) return chosen
  const ability = ABILITIES[category]
  if (asked === undefined) throw new UsageError(`No model of the service can ${ability} at present.`)
  const isOfAnotherKind = data.some(({ id }) => id === asked)
  const problem = isOfAnotherKind ? `${asked} does not ${ability}.` : `There is no model ${JSON.stringify(asked)}.`
  throw unknownName(problem, asked, able.map(nameOf))
}

/** Returns the voices of a model. */
export async function listVoices(context: CommandContext, model: string): Promise<VoiceList['data']> {
  const { data } = await readList<VoiceList>(context, '/v1/audio/voices')
  return data.filter(({ models }) => models.includes(model))
}

/** Throws a `UsageError` that suggests similar names unless the model has the voice. */
export async function requireVoice(context: CommandContext, model: string, voice: string): Promise<void> {
  const voices = (await listVoices(context, model)).map(nameOf)
  if (!voices.includes(voice)) throw unknownName(`${model} has no voice ${JSON.stringify(voice)}.`, voice, voices)
}

function nameOf({ id }: { readonly id: string }): string {
  return id
}

function unknownName(problem: string, asked: string, known: readonly string[]): UsageError {
  const near = nearNames(asked, known)
  const suggestion = near.length > 0 ? `Did you mean ${near.join(' or ')}?` : `There are: ${known.join(', ')}.`
  return new UsageError(`${problem} ${suggestion}`)
}

async function readList<List>(context: CommandContext, path: string): Promise<List> {
  const { signal, output } = context
  const url = new URL(path, serviceUrl(context)).href
  return await askForJson<List>({ fetch, now: Date.now }, url, { signal, onWait: noteWait(output) })
}
