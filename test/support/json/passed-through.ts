import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jsonText } from '#shared/digests/canonical-json.ts'
import { parseEffectiveRequest } from '#shared/jobs/parse-effective-request.ts'
import { JsonSource, parseKeepingSources } from '#shared/json/json-source.ts'
import { chatCompletions } from '#shared/operations/chat-completions.ts'
import { messages } from '#shared/operations/messages.ts'
import { operationById } from '#shared/operations/registry.ts'
import { chatCompletionResult } from '#shared/operations/text/chat-result.ts'
import { messageResult } from '#shared/operations/text/message-result.ts'
import type { TextOutput, TextRequest } from '#shared/operations/text/text-request.ts'
import { parseJsonBody } from '../../../api/request/json-body.ts'
import { finishRequest } from '../../../api/request/prepare-request.ts'
import { createAnthropicText } from '../../../workers/providers/anthropic/text.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import type { SendHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../../workers/providers/openai-compatible/text.ts'
import type { TextProvider } from '../../../workers/providers/provider.ts'
import { smallCatalog, TEXT_MODEL } from '../../unit/operations/small-catalog.ts'
import { objectTexts } from './random-json.ts'
import { schemaTexts } from './random-schema.ts'

/*
 * What a caller or a vendor writes and the service only passes on, from the bytes that came in to the bytes that go out.
 * Values are compared as text, so that an order or a digit that changed is seen.
 */

const CALLS = 4
const connection = { baseUrl: 'http://127.0.0.1:9', apiKey: 'key' }

export interface TestedAdapter {
  readonly create: (http: SendHttp) => TextProvider
  /** The schemas of tools and of the answer, and the arguments of calls, in a body that was sent. */
  readonly read: (body: string) => { schemas: unknown[]; answer: unknown; calls: unknown[] }
  /** What was said in a body that was sent, in its order. */
  readonly said: (body: string) => string[]
  /** A whole answer with these calls, and the same as events. */
  readonly whole: (calls: readonly string[]) => string
  readonly events: (calls: readonly string[]) => string[]
}

type Wire = Record<string, unknown>
const listOf = (value: unknown) => (value ?? []) as Wire[]
const SOURCES = new Set([
  'parameters',
  'schema',
  'input_schema',
  'input',
  'parametersJsonSchema',
  'responseJsonSchema',
  'args',
])
const readBody = (body: string) => parseKeepingSources(body, SOURCES) as Wire
const written = (value: unknown) => (value as JsonSource).text
const callLine = (call: Wire, name: string) => {
  const value = call[name]
  const text = typeof value === 'string' ? value : value instanceof JsonSource ? value.text : JSON.stringify(value)
  return `call ${String(call['name'])}: ${text}`
}

export const ADAPTERS: Record<string, TestedAdapter> = {
  'openai-compatible': {
    create: (http) => createOpenAiCompatibleText({ ...connection, upstreamModel: 'gpt-4.1', http }),
    read: (text) => {
      const body = readBody(text)
      return {
        schemas: listOf(body['tools']).map((tool) => written((tool['function'] as Wire)['parameters'])),
        answer: written(((body['response_format'] as Wire)['json_schema'] as Wire)['schema']),
        calls: listOf(body['messages'])
          .flatMap((message) => listOf(message['tool_calls']))
          .map((call) => (call['function'] as Wire)['arguments']),
      }
    },
    said: (text) =>
      listOf(readBody(text)['messages']).flatMap(({ role, content, tool_calls: calls }) => {
        if (role === 'tool') return [`result: ${String(content)}`]
        const lines = typeof content === 'string' && content.trim() !== '' ? [`${String(role)}: ${content}`] : []
        return [...lines, ...listOf(calls).map((call) => callLine(call['function'] as Wire, 'arguments'))]
      }),
    whole: (calls) =>
      `{"id":"c","choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[${calls
        .map(
          (text, index) =>
            `{"id":"v${index}","type":"function","function":{"name":"f","arguments":${JSON.stringify(text)}}}`,
        )
        .join(',')}]}}],"usage":{"prompt_tokens":9,"completion_tokens":9}}`,
    events: (calls) => [
      ...calls.flatMap((text, index) =>
        [text.slice(0, 3), text.slice(3)].map(
          (piece) =>
            `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":${index},"id":"v${index}","function":{"name":"f","arguments":${JSON.stringify(piece)}}}]}}]}`,
        ),
      ),
      '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
      '{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9}}',
      '[DONE]',
    ],
  },
  gemini: {
    create: (http) => createGeminiText({ ...connection, upstreamModel: 'gemini-3.5-flash', http }),
    read: (text) => {
      const body = readBody(text)
      const config = body['generationConfig'] as Wire
      return {
        schemas: listOf(listOf(body['tools'])[0]?.['functionDeclarations']).map((tool) =>
          written(tool['parametersJsonSchema']),
        ),
        answer: written(config['responseJsonSchema']),
        calls: listOf(body['contents'])
          .flatMap((content) => listOf(content['parts']))
          .flatMap((part) =>
            part['functionCall'] === undefined ? [] : written((part['functionCall'] as Wire)['args']),
          ),
      }
    },
    said: (text) =>
      listOf(readBody(text)['contents']).flatMap(({ role, parts }) =>
        listOf(parts).flatMap((part) => {
          const {
            functionCall,
            functionResponse,
            text: words = '',
          } = part as { functionCall?: Wire; functionResponse?: Wire; text?: string }
          if (functionCall !== undefined) return [callLine(functionCall, 'args')]
          if (functionResponse !== undefined)
            return [`result: ${String((functionResponse['response'] as Wire)['output'])}`]
          return words.trim() === '' ? [] : [`${role === 'model' ? 'assistant' : 'user'}: ${words}`]
        }),
      ),
    whole: (calls) =>
      `{"candidates":[{"finishReason":"STOP","content":{"parts":[${calls
        .map((text) => `{"functionCall":{"name":"f","args": ${text} }}`)
        .join(',')}]}}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9}}`,
    events: (calls) => [
      ...calls.map((text) => `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${text}}}]}}]}`),
      '{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":9}}',
    ],
  },
  anthropic: {
    create: (http) => createAnthropicText({ ...connection, upstreamModel: 'claude-opus-5', http }),
    read: (text) => {
      const body = readBody(text)
      return {
        schemas: listOf(body['tools']).map((tool) => written(tool['input_schema'])),
        answer: written(((body['output_config'] as Wire)['format'] as Wire)['schema']),
        calls: listOf(body['messages'])
          .flatMap((message) => listOf(message['content']))
          .flatMap((block) => (block['type'] === 'tool_use' ? written(block['input']) : [])),
      }
    },
    said: (text) =>
      listOf(readBody(text)['messages']).flatMap(({ role, content }) =>
        listOf(content).flatMap((block) => {
          if (block['type'] === 'tool_use') return [callLine(block, 'input')]
          if (block['type'] === 'tool_result') return [`result: ${String(block['content'])}`]
          return [`${String(role)}: ${String(block['text'])}`]
        }),
      ),
    whole: (calls) =>
      `{"id":"msg_1","content":[${calls
        .map((text, index) => `{"type":"tool_use","id":"v${index}","name":"f","input": ${text} }`)
        .join(',')}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":9}}`,
    events: (calls) => [
      '{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":9,"output_tokens":1}}}',
      ...calls.flatMap((text, index) => [
        `{"type":"content_block_start","index":${index},"content_block":{"type":"tool_use","id":"v${index}","name":"f","input":{}}}`,
        ...[text.slice(0, 2), text.slice(2)].map(
          (piece) =>
            `{"type":"content_block_delta","index":${index},"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(piece)}}}`,
        ),
        `{"type":"content_block_stop","index":${index}}`,
      ]),
      '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}',
      '{"type":"message_stop"}',
    ],
  },
}

interface Written {
  readonly schemas: readonly string[]
  readonly answer: string
  readonly calls: readonly string[]
}

const ids = Array.from({ length: CALLS }, (_, index) => `call_${index}`)
export const names = ids.map((_, index) => `tool_${index}`)

export type Dialect = 'chat' | 'messages'

/** The body of a request as its caller writes it, with spaces where JSON allows them. */
export const DIALECTS: Record<Dialect, (parts: Written) => string> = {
  chat: ({ schemas, answer, calls }) => `{
    "model": "${TEXT_MODEL}",
    "tools": [${schemas.map((text, index) => `{"type":"function","function":{"name":"${names[index]}","parameters": ${text} }}`).join(' , ')}],
    "response_format": {"type":"json_schema","json_schema":{"name":"answer","schema": ${answer}}},
    "messages": [ {"role":"user","content":"Hello"},
      {"role":"assistant","content":null,"tool_calls":[${calls.map((text, index) => `{"id":"${ids[index]}","type":"function","function":{"name":"${names[index]}","arguments":${JSON.stringify(text)}}}`).join(',')}]},
      ${ids.map((id) => `{"role":"tool","tool_call_id":"${id}","content":"done"}`).join(',')} ]
  }`,
  messages: ({ schemas, answer, calls }) => `{
    "model": "${TEXT_MODEL}", "max_tokens": 512,
    "tools": [${schemas.map((text, index) => `{"name":"${names[index]}","input_schema": ${text} }`).join(' , ')}],
    "output_config": {"format":{"type":"json_schema","schema": ${answer}}},
    "messages": [ {"role":"user","content":"Hello"},
      {"role":"assistant","content":[${calls.map((text, index) => `{"type":"tool_use","id":"${ids[index]}","name":"${names[index]}","input": ${text} }`).join(',')}]},
      {"role":"user","content":[${ids.map((id) => `{"type":"tool_result","tool_use_id":"${id}","content":"done"}`).join(',')}]} ]
  }`,
}

const OPERATIONS = { chat: chatCompletions, messages } as const

/** Returns the stored text of a body and its digest, as an API makes them. */
export function storedText(dialect: Dialect, body: string) {
  const operation = operationById(OPERATIONS[dialect].id)
  const given = operation.bodySchema.parse(parseJsonBody(Buffer.from(body)))
  const effective = operation.effectiveRequest(given, null, smallCatalog)
  const { json, requestDigest } = finishRequest(operation, effective, () => smallCatalog)
  return { text: json.toString(), requestDigest }
}

/** Returns the request of a stored text, as a worker reads it. */
export function readStored(dialect: Dialect, text: string): TextRequest {
  return OPERATIONS[dialect].effectiveRequestSchema.parse(parseEffectiveRequest(text)).request
}

export async function sentBody(adapter: TestedAdapter, request: TextRequest): Promise<string> {
  let sent = ''
  const provider = adapter.create((http) => {
    sent = typeof http.body === 'string' ? http.body : ''
    return Promise.resolve({ outcome: 'unknown', reason: 'not answered' })
  })
  await provider.generateText(request, { timeoutMs: 60_000 })
  return sent
}

const writtenParts: fc.Arbitrary<Written> = fc.record({
  schemas: fc.array(schemaTexts, { minLength: CALLS, maxLength: CALLS }),
  answer: schemaTexts,
  calls: fc.array(objectTexts, { minLength: CALLS, maxLength: CALLS }),
})

const pairs = Object.keys(ADAPTERS).flatMap((adapter) =>
  (['chat', 'messages'] as const).map((dialect) => [dialect, adapter] as const),
)

const FACTS = { id: '1', created: 1, model: TEXT_MODEL, includeThoughtSignatures: false }
const RESULTS: Record<Dialect, (output: TextOutput) => (string | undefined)[]> = {
  chat: (output) => {
    const result = JSON.parse(jsonText(chatCompletionResult(FACTS, output))) as ReturnType<typeof chatCompletionResult>
    return (result.choices[0]?.message.tool_calls ?? []).map((call) => call.function.arguments)
  },
  messages: (output) => {
    const result = parseKeepingSources(jsonText(messageResult(FACTS, output)), new Set(['input'])) as Wire
    return listOf(result['content']).map((block) => written(block['input']))
  },
}

/** Describes both directions for every dialect and adapter; each run compares at least nine values. */
export function describePassedThrough(numRuns: number): void {
  describe('what a caller writes', () => {
    test.each(pairs)('reaches the vendor unchanged: %s by %s', async (dialect, name) => {
      const adapter = ADAPTERS[name] as TestedAdapter
      await fc.assert(
        fc.asyncProperty(writtenParts, async (parts) => {
          const { text } = storedText(dialect, DIALECTS[dialect](parts))
          expect(adapter.read(await sentBody(adapter, readStored(dialect, text)))).toEqual(parts)
        }),
        { numRuns },
      )
    })
  })

  describe('what a vendor writes', () => {
    test.each(pairs)('reaches the caller unchanged, whole and streamed: %s by %s', async (dialect, name) => {
      const adapter = ADAPTERS[name] as TestedAdapter
      const request: TextRequest = {
        messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
        max_output_tokens: 4096,
      }
      const callsOf = async (http: SendHttp, timeoutMs: number) => {
        const outcome = await adapter.create(http).generateText(request, { timeoutMs })
        if (outcome.outcome === 'failed') throw new Error(outcome.reason)
        return RESULTS[dialect](outcome.output)
      }
      await fc.assert(
        fc.asyncProperty(fc.array(objectTexts, { minLength: 9, maxLength: 9 }), async (calls) => {
          const headers = new Headers()
          const whole: SendHttp = () =>
            Promise.resolve({ outcome: 'response', status: 200, headers, bytes: Buffer.from(adapter.whole(calls)) })
          expect(await callsOf(whole, 600_000)).toEqual(calls)
          const streamed: SendHttp = (_, { onEvent }) => {
            const progress = adapter.events(calls).map((event) => onEvent?.(event) ?? 'waiting')
            const bytes = new Uint8Array()
            return Promise.resolve({
              outcome: 'response',
              status: 200,
              headers,
              bytes,
              streamed: progress.at(-1) ?? 'waiting',
            })
          }
          expect(await callsOf(streamed, 60_000)).toEqual(calls)
        }),
        { numRuns },
      )
    })
  })
}
