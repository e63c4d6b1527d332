import { countTokens, tokenPieces } from './count-tokens.ts'
import type { SeenImage } from './read-image.ts'
import { sampleJson, sampleObject } from './sample-json.ts'

export interface WritingTool {
  readonly name: string
  readonly description?: string | undefined
  /** JSON Schema of the arguments, in the vendor's dialect. */
  readonly parameters: unknown
}

/** A text call, independent of the vendor's wire format. Absent options have their vendors' defaults. */
export interface WritingTask {
  /** Every text that the model reads, in order: instructions, history, and finally the message to answer. */
  readonly texts: readonly string[]
  /** Tool results after the last message, which are answered with text. */
  readonly toolResults?: readonly string[]
  readonly tools?: readonly WritingTool[] | undefined
  readonly toolChoice?: 'auto' | 'none' | 'required' | { readonly name: string } | undefined
  /** Whether at most one tool is called. */
  readonly callsOne?: boolean
  readonly responseFormat?:
    | { readonly type: 'text' | 'json_object' }
    | { readonly type: 'json_schema'; readonly schema: unknown }
    | undefined
  readonly images?: readonly SeenImage[]
  /** Returns an image's tokens; default 258, Gemini's fixed number for a small image. */
  readonly imageTokens?: (image: SeenImage) => number
  readonly maxOutputTokens?: number | undefined
  readonly stopSequences?: readonly string[]
  /** How hard the model thinks before it writes; by default not at all. */
  readonly thinking?: Thinking | undefined
}

export interface Thinking {
  readonly effort: 'minimal' | 'low' | 'medium' | 'high'
  /** The most tokens that it may spend. */
  readonly budgetTokens?: number | undefined
}

export interface WrittenToolCall {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

export interface WrittenAnswer {
  /** `null` when the model only called tools; for `refused` it is the refusal. */
  readonly text: string | null
  readonly toolCalls: readonly WrittenToolCall[]
  readonly finishReason: 'stop' | 'stop_sequence' | 'length' | 'tool_calls' | 'refused'
  readonly stopSequence: string | null
  readonly inputTokens: number
  /** Visible and hidden tokens together; never more than `maxOutputTokens`. */
  readonly outputTokens: number
  readonly thinkingTokens: number
}

/**
 * Writes the answer for every simulated vendor of text. It depends only on the task:
 *
 * - it greets, quotes the start of the last message, counts its words and names type and size of the images;
 * - `write 300 words` adds that many words; `please refuse` is refused;
 * - a tool is called when the choice requires it, or when the message names it or contains "use the tool", "call the" or
 *   "weather"; `all tools` calls each; tool results are answered with text unless a call is required;
 * - a JSON response format receives an object that is valid for the schema;
 * - an answer longer than `maxOutputTokens` is truncated, and a stop sequence ends it earlier;
 * - `think hard` makes a model that thinks spend as much as its effort allows, even the whole limit; `please say nothing`
 *   makes it end without a word.
 */
export function writeAnswer(task: WritingTask): WrittenAnswer {
  const message = task.texts.at(-1) ?? ''
  const limit = task.maxOutputTokens ?? 8192
  const inputTokens = countInput(task)
  const thinkingTokens = countThinking(task.thinking, message, limit)
  const finish = (answer: Pick<WrittenAnswer, 'text' | 'finishReason'> & Partial<WrittenAnswer>, visible: number) => ({
    toolCalls: [],
    stopSequence: null,
    ...answer,
    inputTokens,
    thinkingTokens,
    outputTokens: thinkingTokens + visible,
  })
  const room = limit - thinkingTokens
  const chosen = chooseTools(task, message)
  const toolCalls = (task.callsOne === true ? chosen.slice(0, 1) : chosen).map(({ name, parameters }) => ({
    name,
    arguments: sampleObject(parameters, message),
  }))
  if (toolCalls.length > 0) {
    const visible = countTokens(JSON.stringify(toolCalls))
    if (visible > room) return finish({ text: null, finishReason: 'length' }, room)
    return finish({ text: null, toolCalls, finishReason: 'tool_calls' }, visible)
  }
  const refused = /\bplease refuse\b/i.test(message)
  const pieces = tokenPieces(refused ? 'I am sorry, but I cannot help with that.' : compose(task, message))
  const kept = pieces.slice(0, room)
  const text = kept.join('')
  const stop = firstStop(text, task.stopSequences ?? [])
  if (stop !== undefined) {
    const before = text.slice(0, stop.at)
    return finish(
      { text: before, finishReason: 'stop_sequence', stopSequence: stop.sequence },
      Math.min(room, countTokens(before) + 1),
    )
  }
  if (kept.length < pieces.length) return finish({ text, finishReason: 'length' }, kept.length)
  return finish({ text, finishReason: refused ? 'refused' : 'stop' }, kept.length)
}

/** The tokens that a hard question takes to think about. */
const HARD_THINKING_TOKENS = { minimal: 16, low: 256, medium: 1024, high: 8192 } as const

function countThinking(thinking: Thinking | undefined, message: string, limit: number): number {
  if (thinking === undefined) return 0
  const { effort, budgetTokens = Number.POSITIVE_INFINITY } = thinking
  const isHard = /\bthink hard\b/i.test(message)
  const wanted = isHard ? HARD_THINKING_TOKENS[effort] : Math.min(8 + countTokens(message), Math.floor(limit / 3))
  return Math.min(wanted, budgetTokens, limit)
}

/** Counts the input with one additional token for each text, tool and schema; a text never counts more tokens than bytes. */
function countInput(task: WritingTask): number {
  const { texts, toolResults = [], tools = [], responseFormat, images = [], imageTokens = () => 258 } = task
  const schema = responseFormat?.type === 'json_schema' ? [JSON.stringify(responseFormat.schema) ?? ''] : []
  const described = tools.flatMap(({ name, description = '', parameters }) => [
    `${name} ${description} ${JSON.stringify(parameters) ?? ''}`,
  ])
  const read = [...texts, ...toolResults, ...described, ...schema]
  const ofTexts = read.reduce((sum, text) => sum + countTokens(text) + 1, 0)
  return images.reduce((sum, image) => sum + imageTokens(image), ofTexts)
}

function chooseTools({ tools = [], toolChoice = 'auto', toolResults = [] }: WritingTask, message: string) {
  if (toolChoice === 'none') return []
  if (typeof toolChoice === 'object') return tools.filter(({ name }) => name === toolChoice.name).slice(0, 1)
  const lowered = message.toLowerCase()
  const wanted = /\b(?:use|call)\s+(?:the|a|an|your)\b.*|\bweather\b|\ball tools\b/.test(lowered)
  const named = tools.filter(({ name }) => mentions(lowered, name))
  if (toolChoice !== 'required' && (toolResults.length > 0 || (!wanted && named.length === 0))) return []
  if (/\ball tools\b/.test(lowered)) return tools
  const related = tools.filter(({ name, description = '' }) => /weather/i.test(`${name} ${description}`))
  return [...named, ...(/\bweather\b/.test(lowered) ? related : []), ...tools].slice(0, 1)
}

function mentions(lowered: string, name: string): boolean {
  const plain = name.toLowerCase()
  return lowered.includes(plain) || lowered.includes(plain.replaceAll(/[_-]+/g, ' '))
}

function compose(task: WritingTask, message: string): string {
  const { responseFormat } = task
  if (/\bplease say nothing\b/i.test(message)) return ''
  if (responseFormat?.type === 'json_schema') return JSON.stringify(sampleJson(responseFormat.schema, message))
  const text = converse(task, message)
  return responseFormat?.type === 'json_object' ? JSON.stringify({ answer: text }) : text
}

function converse({ texts, toolResults = [], images = [] }: WritingTask, message: string): string {
  const words = message.match(/\S+/gu) ?? []
  const quoted = Array.from(words.slice(0, 12).join(' ')).slice(0, 80).join('')
  const asked = /\b(\d{1,5}) words\b/i.exec(message)?.[1]
  const sentences = [
    texts.length > 1 ? 'Hello again!' : 'Hello!',
    `You wrote ${words.length} ${words.length === 1 ? 'word' : 'words'}: “${quoted}${words.length > 12 ? ' …' : ''}”.`,
    ...images.map(
      ({ contentType, width, height }) =>
        `I see ${contentType === 'image/png' ? 'a PNG' : `an image of type ${contentType}`} of ${width} × ${height} pixels.`,
    ),
    ...toolResults.map((result) => `The tool answered: ${Array.from(result).slice(0, 400).join('')}.`),
    ...(asked === undefined ? [] : [writeWords(Math.min(Number(asked), 20_000))]),
  ]
  return sentences.join(' ')
}

const VOCABULARY = 'the tram turns slowly past the old market while a bell rings and nobody hurries home'.split(' ')

function writeWords(count: number): string {
  return `${Array.from({ length: count }, (_, index) => VOCABULARY[(index * 7 + (index >> 4)) % VOCABULARY.length]).join(' ')}.`
}

function firstStop(text: string, sequences: readonly string[]): { at: number; sequence: string } | undefined {
  return sequences
    .filter((sequence) => sequence !== '')
    .map((sequence) => ({ at: text.indexOf(sequence), sequence }))
    .filter(({ at }) => at >= 0)
    .sort((left, right) => left.at - right.at)[0]
}
