import { createHash } from 'node:crypto'
import { countTokens, tokenPieces } from './count-tokens.ts'
import type { CachedTokens, PromptBlock, PromptCache } from './prompt-cache.ts'
import { sampleJson } from './sample-json.ts'
import { type ReadConversation, readConversation, type TextCall, type Thinking } from './text-call.ts'

export interface WrittenToolCall {
  readonly name: string
  readonly arguments: unknown
}

export interface WrittenAnswer {
  /** The text that was answered. */
  readonly message: string
  /** `null` when the model only called tools or the prompt was blocked; for `refused` it is the refusal. */
  readonly text: string | null
  readonly toolCalls: readonly WrittenToolCall[]
  readonly finishReason: 'stop' | 'stop_sequence' | 'length' | 'tool_calls' | 'refused' | 'blocked'
  readonly stopSequence: string | null
  readonly inputTokens: number
  /** Parts of the input. */
  readonly cache: CachedTokens
  /** Visible and hidden tokens together; never more than `maxOutputTokens`. */
  readonly outputTokens: number
  readonly thinkingTokens: number
}

/**
 * Writes the answer for every simulated vendor of text; undefined when an image cannot be read. It depends only on the
 * call:
 *
 * - it greets, quotes the start of the last message, counts its words and names type and size of the images;
 * - `write 300 words` adds that many words; `please refuse` is refused, and `please block` before anything is generated;
 * - a tool is called when the choice requires it, or when the message names it or contains "use the tool", "call the" or
 *   "weather"; `all tools` calls each; tool results are answered with text unless a call is required;
 * - a JSON response format receives an object that is valid for the schema;
 * - an answer longer than `maxOutputTokens` is truncated, and a stop sequence ends it earlier;
 * - `think hard` makes a model that thinks spend as much as its effort allows, even the whole limit; `please say nothing`
 *   makes it end without a word.
 */
export function writeAnswer(call: TextCall, promptCache: PromptCache): WrittenAnswer | undefined {
  const conversation = readConversation(call.turns)
  if (conversation === undefined) return undefined
  const { message } = conversation
  const { inputTokens, cache } = readInput(call, conversation, promptCache)
  const limit = call.maxOutputTokens ?? 8192
  const known = { message, inputTokens, cache, toolCalls: [], stopSequence: null }
  if (/\bplease block\b/i.test(message))
    return { ...known, text: null, finishReason: 'blocked', outputTokens: 0, thinkingTokens: 0 }
  const thinkingTokens = countThinking(call.thinking, message, limit)
  const room = limit - thinkingTokens
  const finish = (
    answer: Pick<WrittenAnswer, 'text' | 'finishReason'> & Partial<WrittenAnswer>,
    visible: number,
  ): WrittenAnswer => ({ ...known, ...answer, thinkingTokens, outputTokens: thinkingTokens + visible })
  const toolCalls = chooseTools(call, conversation).map(({ name, parameters }) => ({
    name,
    arguments: sampleJson({ ...(parameters as object), type: 'object' }, message),
  }))
  if (toolCalls.length > 0) {
    const visible = countTokens(JSON.stringify(toolCalls))
    if (visible > room) return finish({ text: null, finishReason: 'length' }, room)
    return finish({ text: null, toolCalls, finishReason: 'tool_calls' }, visible)
  }
  const refused = /\bplease refuse\b/i.test(message)
  const pieces = tokenPieces(refused ? 'I am sorry, but I cannot help with that.' : compose(call, conversation))
  const text = pieces.slice(0, room).join('')
  const stop = firstStop(text, call.stopSequences ?? [])
  if (stop !== undefined) {
    const before = text.slice(0, stop.at)
    const visible = Math.min(room, countTokens(before) + 1)
    return finish({ text: before, finishReason: 'stop_sequence', stopSequence: stop.sequence }, visible)
  }
  if (pieces.length > room) return finish({ text, finishReason: 'length' }, room)
  return finish({ text, finishReason: refused ? 'refused' : 'stop' }, pieces.length)
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

/** Counts the input with one additional token for each part; a text never counts more tokens than bytes. */
function readInput(call: TextCall, { images }: ReadConversation, promptCache: PromptCache) {
  const { model, tools = [], turns, responseFormat, imageTokens = () => 258, cache: rule } = call
  const blocks: PromptBlock[] = [
    ...tools.map(({ name, description = '', parameters, isBreakpoint = false }) => ({
      label: 'tool',
      text: `${name} ${description} ${JSON.stringify(parameters) ?? ''}`,
      isBreakpoint,
    })),
    ...turns.flatMap(({ role, parts }) =>
      parts.map(({ kind, content, isBreakpoint = false }) => ({
        label: kind === 'image' ? 'image' : role,
        text: kind === 'image' ? createHash('sha256').update(content).digest('hex').slice(0, 8) : content,
        isBreakpoint,
      })),
    ),
  ]
  const schema = responseFormat?.type === 'json_schema' ? [JSON.stringify(responseFormat.schema)] : []
  const texts = [...blocks.filter(({ label }) => label !== 'image').map(({ text }) => text), ...schema]
  const ofTexts = texts.reduce((sum, text) => sum + countTokens(text) + 1, 0)
  const inputTokens = images.reduce((sum, image) => sum + imageTokens(image), ofTexts)
  const { cached, written } = rule ? promptCache.read(model, blocks, rule) : { cached: 0, written: 0 }
  const read = Math.min(cached, inputTokens)
  return { inputTokens, cache: { cached: read, written: Math.min(written, inputTokens - read) } }
}

function chooseTools(
  { tools = [], toolChoice = 'auto', callsOne = false }: TextCall,
  { message, toolResults }: ReadConversation,
) {
  if (toolChoice === 'none') return []
  if (typeof toolChoice === 'object') return tools.filter(({ name }) => name === toolChoice.name).slice(0, 1)
  const lowered = message.toLowerCase()
  const wanted = /\b(?:use|call)\s+(?:the|a|an|your)\b.*|\bweather\b|\ball tools\b/.test(lowered)
  const named = tools.filter(({ name }) => mentions(lowered, name))
  if (toolChoice !== 'required' && (toolResults.length > 0 || (!wanted && named.length === 0))) return []
  if (/\ball tools\b/.test(lowered)) return callsOne ? tools.slice(0, 1) : tools
  const related = tools.filter(({ name, description = '' }) => /weather/i.test(`${name} ${description}`))
  return [...named, ...(/\bweather\b/.test(lowered) ? related : []), ...tools].slice(0, 1)
}

function mentions(lowered: string, name: string): boolean {
  const plain = name.toLowerCase()
  return lowered.includes(plain) || lowered.includes(plain.replaceAll(/[_-]+/g, ' '))
}

function compose({ responseFormat }: TextCall, conversation: ReadConversation): string {
  const { message } = conversation
  if (/\bplease say nothing\b/i.test(message)) return ''
  if (responseFormat?.type === 'json_schema') return JSON.stringify(sampleJson(responseFormat.schema, message))
  const text = converse(conversation)
  return responseFormat?.type === 'json_object' ? JSON.stringify({ answer: text }) : text
}

function converse({ message, isFirst, toolResults, images }: ReadConversation): string {
  const words = message.match(/\S+/gu) ?? []
  const quoted = Array.from(words.slice(0, 12).join(' ')).slice(0, 80).join('')
  const asked = /\b(\d{1,5}) words\b/i.exec(message)?.[1]
  const sentences = [
    isFirst ? 'Hello!' : 'Hello again!',
    `You wrote ${words.length} ${words.length === 1 ? 'word' : 'words'}: “${quoted}${words.length > 12 ? ' …' : ''}”.`,
    ...images.map(({ type, width, height }) => {
      const seen = type === 'image/png' ? 'a PNG' : `an image of type ${type}`
      return `I see ${seen} of ${width} × ${height} pixels.`
    }),
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
