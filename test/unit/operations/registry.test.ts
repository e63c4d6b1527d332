import { describe, expect, test } from 'vitest'
import { ADAPTER_NAMES, type AdapterName } from '#shared/catalog/adapter-names.ts'
import { categories } from '#shared/catalog/categories.ts'
import { imageResult, images } from '#shared/operations/images.ts'
import { type OperationId, operationById, operations } from '#shared/operations/registry.ts'
import { speech, speechResult } from '#shared/operations/speech.ts'
import { chatCompletionResult, chatCompletionResultSchema } from '#shared/operations/text/chat-result.ts'
import { messageResult, messageResultSchema } from '#shared/operations/text/message-result.ts'
import type { TextOutput, TextRequest } from '#shared/operations/text/text-request.ts'
import { createMp3Converter } from '../../../workers/executions/convert-to-mp3.ts'
import type { Execution } from '../../../workers/executions/execution.ts'
import { createExecutions, type Executions } from '../../../workers/executions/registry.ts'
import type { Adapter } from '../../../workers/providers/adapter.ts'
import { adapters } from '../../../workers/providers/registry.ts'
import { written } from '../../support/vendors/written.ts'

/*
 * The type checker covers this file: each `@ts-expect-error` fails `npm run check` as soon as the line below it
 * compiles.
 */
const execution: Execution = {
  heldBytes: () => 0,
  screenedTexts: () => [],
  prepare: () => Promise.reject(new Error('this execution only stands for a type')),
}
const allButTranscriptions = {
  createChatCompletion: execution,
  createMessage: execution,
  createImageGeneration: execution,
  createSpeech: execution,
}
// @ts-expect-error: createTranscription has no execution
export const missingExecution: Executions = allButTranscriptions
// @ts-expect-error: no operation has this id
export const misspelledOperation: OperationId = 'createSpeach'
// @ts-expect-error: the adapters of three vendors are missing
export const missingAdapters: Record<AdapterName, Adapter> = { gemini: adapters.gemini }
function pathsOf(categoryId: string): readonly string[] {
  return operations.filter(({ category }) => category === categoryId).map(({ path }) => path)
}
const facts = { id: 'j1', created: 1_800_000_000, model: 'textmodel-2.5-pro', includeThoughtSignatures: false }
const output: TextOutput = {
  text: 'Hi',
  refusal: null,
  tool_calls: [],
  finish_reason: 'stop',
  usage: { input_tokens: 3, output_tokens: 10, thinking_tokens: 8 },
  thought_signatures: ['c2ln'],
}
const call = { id: 'c', name: 'f', arguments_json: '{"a":[1]}' }

describe('the registry of operations', () => {
  test.each(operations)('$id has an execution and a category', ({ id, category }) => {
    const executionOf = createExecutions(
      { fetchAll: () => Promise.reject(new Error('no image is fetched here')) },
      createMp3Converter(undefined),
    )
    expect(executionOf(id)).toBeDefined()
    expect(categories.map((known) => known.id)).toContain(category)
  })

  test('operations have unique ids and paths', () => {
    expect(new Set(operations.map(({ id }) => id)).size).toBe(operations.length)
    expect(new Set(operations.map(({ path }) => path)).size).toBe(operations.length)
  })

  test('each category has exactly the specified endpoints, all of which are served [spec S5a, S5b]', () => {
    expect(Object.fromEntries(categories.map(({ id }) => [id, pathsOf(id)]))).toEqual({
      text_generation: ['/v1/chat/completions', '/v1/messages'],
      image_generation: ['/v1/images/generations'],
      text_to_speech: ['/v1/audio/speech'],
      speech_to_text: ['/v1/audio/transcriptions'],
    })
  })

  test('an unknown operation id throws', () => {
    expect(() => operationById('createVideo')).toThrow('there is no operation createVideo')
  })

  test('each adapter name has an adapter', () => {
    expect(Object.keys(adapters).toSorted()).toEqual([...ADAPTER_NAMES].toSorted())
  })
})

describe('the prefix that calls of a conversation share', () => {
  test('is the same wherever its caller wants the prompt cached', async () => {
    const executionOf = createExecutions(
      { fetchAll: () => Promise.reject(new Error('no image is fetched here')) },
      createMp3Converter(undefined),
    )
    const prefixOf = async (isBreakpoint: boolean) => {
      const mark = isBreakpoint ? { cache_breakpoint: true as const } : {}
      const request: TextRequest = {
        messages: [{ role: 'user', parts: [{ type: 'text', text: 'tram '.repeat(2000), ...mark }] }],
        tools: [{ name: 'clock', parameters: written({}), ...mark }],
        max_output_tokens: 5,
      }
      const model = 'textmodel-2.5-pro'
      const effectiveRequest = { operation: 'createMessage', model, request, include_thought_signatures: false }
      const job = { effectiveRequest, authorization: { payer: '0x' }, isNewPayer: false }
      const memory = { extendTo: () => true, shrinkTo: () => undefined }
      return (await executionOf('createMessage').prepare({ job } as never, memory)).prefix
    }
    expect(await prefixOf(true)).toMatch(/^[0-9a-f]{64}$/)
    expect(await prefixOf(true)).toBe(await prefixOf(false))
  })
})

describe('results of the operations', () => {
  test('a chat completion has the specified format that the SDKs of the family read [spec O2]', () => {
    const result = chatCompletionResult(facts, output)
    expect(chatCompletionResultSchema.parse(result)).toEqual({
      id: 'chatcmpl-j1',
      object: 'chat.completion',
      created: 1_800_000_000,
      model: 'textmodel-2.5-pro',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hi', refusal: null },
          finish_reason: 'stop',
          logprobs: null,
        },
      ],
      usage: {
        prompt_tokens: 3,
        completion_tokens: 10,
        total_tokens: 13,
        prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 8 },
      },
    })
  })

  test('a message has the specified format that the SDKs of the family read [spec O3]', () => {
    const result = messageResult(facts, output)
    expect(messageResultSchema.parse(result)).toEqual({
      id: 'msg_j1',
      type: 'message',
      role: 'assistant',
      model: 'textmodel-2.5-pro',
      content: [{ type: 'text', text: 'Hi' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 3, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 10 },
    })
  })

  test('reports what the prompt cache took and gave in the counts of each family', () => {
    const usage = { input_tokens: 100, cached_input_tokens: 60, cache_write_tokens: 30, output_tokens: 10 }
    const cached = { ...output, usage }
    expect(chatCompletionResultSchema.parse(chatCompletionResult(facts, cached)).usage).toMatchObject({
      prompt_tokens: 100,
      total_tokens: 110,
      prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 30 },
    })
    expect(messageResultSchema.parse(messageResult(facts, cached)).usage).toEqual({
      input_tokens: 10,
      cache_creation_input_tokens: 30,
      cache_read_input_tokens: 60,
      output_tokens: 10,
    })
  })

  test('reports tool calls in the format of each family, even when the vendor’s finish reason is stop', () => {
    const called = { ...output, text: null, tool_calls: [call] }
    const [choice] = chatCompletionResultSchema.parse(chatCompletionResult(facts, called)).choices
    expect(choice).toMatchObject({
      message: {
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":[1]}' } }],
      },
      finish_reason: 'tool_calls',
    })
    expect(messageResultSchema.parse(messageResult(facts, called))).toMatchObject({
      content: [{ type: 'tool_use', id: 'c', name: 'f', input: written({ a: [1] }) }],
      stop_reason: 'tool_use',
    })
  })

  test.each([
    ['', {}],
    ['{}', {}],
    ['broken', { raw_arguments: 'broken' }],
    ['[1]', { raw_arguments: '[1]' }],
    ['['.repeat(100_000), { raw_arguments: '['.repeat(100_000) }],
    [`{"a":${'['.repeat(70)}${']'.repeat(70)}}`, { raw_arguments: `{"a":${'['.repeat(70)}${']'.repeat(70)}}` }],
  ])('arguments %j become an object in messages', (arguments_json, input) => {
    const result = messageResult(facts, { ...output, tool_calls: [{ ...call, arguments_json }] })
    expect(messageResultSchema.parse(result).content[1]).toMatchObject({ input: written(input) })
  })

  test.each([
    ['stop', 'stop', 'end_turn'],
    ['length', 'length', 'max_tokens'],
    ['tool_calls', 'tool_calls', 'tool_use'],
    ['content_filter', 'content_filter', 'refusal'],
  ] as const)(
    'finish reason %s becomes %s in chat completions and %s in messages',
    (finish_reason, chatReason, messageReason) => {
      expect(chatCompletionResult(facts, { ...output, finish_reason }).choices[0]?.finish_reason).toBe(chatReason)
      expect(messageResult(facts, { ...output, finish_reason }).stop_reason).toBe(messageReason)
    },
  )

  test('a refusal is a separate field of a chat completion, and the text of a refused message', () => {
    const refused = { ...output, text: null, refusal: 'No.' }
    expect(chatCompletionResult(facts, refused).choices[0]?.message).toMatchObject({ content: null, refusal: 'No.' })
    expect(messageResult(facts, refused)).toMatchObject({
      content: [{ type: 'text', text: 'No.' }],
      stop_reason: 'refusal',
    })
  })

  test('returns thought signatures only when raw output was requested [spec R12]', () => {
    const asked = { ...facts, includeThoughtSignatures: true }
    expect(JSON.stringify([chatCompletionResult(facts, output), messageResult(facts, output)])).not.toContain('c2ln')
    const chat = chatCompletionResultSchema.parse(chatCompletionResult(asked, output))
    expect(chat.choices[0]?.message.thought_signatures).toEqual(['c2ln'])
    expect(messageResultSchema.parse(messageResult(asked, output)).thought_signatures).toEqual(['c2ln'])
  })

  test('an image result has exactly the specified fields [spec R16]', () => {
    const expiresAt = new Date('2026-08-01T00:00:00Z')
    const plain = { created: 1, url: 'http://127.0.0.1:8402/media/abc', expiresAt, price: '0.035' }
    expect(images.resultSchema.parse(imageResult(plain))).toEqual({
      created: 1,
      model: 'textmodel-3.1-flash-lite-image',
      image_size: '1K',
      aspect_ratio: '1:1',
      data: [
        {
          url: 'http://127.0.0.1:8402/media/abc',
          backed_up: true,
          url_expires_at: '2026-08-01T00:00:00.000Z',
          url_retention_days: 7,
        },
      ],
      price: { amount: '0.035', currency: 'USD' },
    })
    const full = images.resultSchema.parse(imageResult({ ...plain, base64: 'AAAA', revisedPrompt: 'y' }))
    expect(full.data[0]).toMatchObject({ b64_json: 'AAAA', revised_prompt: 'y' })
  })

  test('a speech result has exactly the specified fields [spec R18]', () => {
    const result = speechResult({
      id: 'j1',
      created: 1,
      url: 'https://example.com/media/abc',
      bytes: 4096,
      durationMs: 1200,
      characters: 5,
      expiresAt: new Date('2026-08-01T00:00:00Z'),
    })
    expect(speech.resultSchema.parse(result)).toEqual({
      id: 'speech-j1',
      created: 1,
      model: 'speechvendor/flash-v2.5',
      data: [
        {
          url: 'https://example.com/media/abc',
          format: 'mp3',
          content_type: 'audio/mpeg',
          bytes: 4096,
          duration_ms: 1200,
          characters: 5,
          expires_at: '2026-08-01T00:00:00.000Z',
          backed_up: true,
        },
      ],
      usage: { input_characters: 5 },
    })
  })
})
