import { askForJson, type Followed } from '../wire/ask-service.ts'
import { requireSafeUrl } from '../wire/safe-url.ts'
import type { ModelList, VoiceList } from '../wire/schemas.ts'

const MOST_SUGGESTIONS = 3
/** Fewer letters occur in almost every name. */
const SHORTEST_PART = 3

export type Model = ModelList['data'][number]
export type Category = Model['category']

/** Where the lists of a service are read. */
export interface ListAccess extends Followed {
  readonly baseUrl: string
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

/** Returns the known names that a mistyped or abbreviated one may stand for, nearest first. */
export function nearNames(name: string, known: readonly string[]): readonly string[] {
  const asked = name.toLowerCase()
  const tolerance = Math.max(2, Math.floor(asked.length / 4))
  const near = known.flatMap((candidate) => {
    const lowered = candidate.toLowerCase()
    const distance = editDistance(asked, lowered)
    const isPart = asked.length >= SHORTEST_PART && lowered.includes(asked)
    return isPart || distance <= tolerance ? [{ candidate, distance }] : []
  })
  const nearest = Math.min(...near.map(({ distance }) => distance))
  // A slip of the hand has one meaning, while a part of a name has several.
  const meant = nearest <= tolerance ? near.filter(({ distance }) => distance === nearest) : near
  meant.sort((one, other) => one.distance - other.distance)
  return meant.slice(0, MOST_SUGGESTIONS).map(({ candidate }) => candidate)
}

/** Returns the fewest insertions, deletions, replacements and swaps of neighbors that turn one text into the other. */
export function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)]
  for (let row = 1; row <= from.length; row += 1) {
    const [above = [], twoAbove = []] = [rows[row - 1], rows[row - 2]]
    const current = [row]
    for (let column = 1; column <= to.length; column += 1) {
      const isSame = from[row - 1] === to[column - 1]
      const isSwap = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      current.push(
        Math.min(
          (above[column] ?? Infinity) + 1,
          (current[column - 1] ?? Infinity) + 1,
          (above[column - 1] ?? Infinity) + (isSame ? 0 : 1),
          isSwap ? (twoAbove[column - 2] ?? Infinity) + 1 : Infinity,
        ),
      )
    }
    rows.push(current)
  }
  return rows[from.length]?.[to.length] ?? Infinity
}
