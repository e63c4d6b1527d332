import { describe, expect, test } from 'vitest'
import type { Carrier, Catalog } from '#shared/catalog/catalog.ts'
import { parseDeployments } from '#shared/catalog/deployments-file.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { transcriptions } from '#shared/operations/transcriptions.ts'
import { catalogsOf } from '#shared/operators/catalogs-of-configuration.ts'
import type { DeploymentControl } from '#shared/operators/configuration.ts'
import { written } from '../../support/vendors/written.ts'
import { effectiveOf, quoteOf, smallCatalog, TEXT_MODEL } from './small-catalog.ts'

const [chat, message] = ['createChatCompletion', 'createMessage'] as const
const hello = [{ role: 'user', content: 'Hello' }]
const schema = { type: 'object', properties: { a: { type: 'integer' } } }
const chatBody = (fields: object) => ({ model: TEXT_MODEL, messages: hello, ...fields })
const messageBody = (fields: object) => ({ model: TEXT_MODEL, messages: hello, max_tokens: 9000, ...fields })
const chatRequest = (fields: object) => (effectiveOf(chat, chatBody(fields)) as { request: object }).request
const messageRequest = (fields: object) => (effectiveOf(message, messageBody(fields)) as { request: object }).request
const tool = (name: string, fields: object = {}) => ({
  type: 'function',
  function: { name, parameters: schema, ...fields },
})
const messageTool = (name: string, fields: object = {}) => ({ name, input_schema: schema, ...fields })

describe('options become part of the request', () => {
  test.each<[string, object, object]>([
    ['strict tools', { tools: [tool('f', { strict: true })] }, { tools: [{ name: 'f', strict: true }] }],
    ['a function without a type', { tools: [{ function: { name: 'f' } }] }, { tools: [{ name: 'f' }] }],
    [
      'a function with null for what it has none of',
      { tools: [tool('f', { description: null, parameters: null, strict: null })] },
      { tools: [{ name: 'f' }] },
    ],
    ['one call at a time', { tools: [tool('f')], parallel_tool_calls: false }, { parallel_tool_calls: false }],
    ['an effort', { reasoning_effort: 'high' }, { reasoning_effort: 'high' }],
    ['a verbosity', { verbosity: 'low' }, { verbosity: 'low' }],
    [
      'a strict format with a description',
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', description: 'A count.', strict: true, schema },
        },
      },
      {
        response_format: {
          type: 'json_schema',
          name: 'n',
          description: 'A count.',
          strict: true,
          schema: written(schema),
        },
      },
    ],
    ['a null limit beside another', { max_tokens: 7, max_completion_tokens: null }, { max_output_tokens: 7 }],
  ])('of chat completions: %s', (_name, fields, expected) => {
    expect(chatRequest(fields)).toMatchObject(expected)
  })

  test.each<[string, object, object]>([
    ['strict tools', { tools: [messageTool('f', { strict: true })] }, { tools: [{ name: 'f', strict: true }] }],
    [
      'one call at a time',
      { tools: [messageTool('f')], tool_choice: { type: 'any', disable_parallel_tool_use: true } },
      { tool_choice: 'required', parallel_tool_calls: false },
    ],
    ['no thinking', { thinking: { type: 'disabled' } }, { reasoning_effort: 'none' }],
    ['a small budget', { thinking: { type: 'enabled', budget_tokens: 1024 } }, { reasoning_effort: 'low' }],
    ['a large budget', { thinking: { type: 'enabled', budget_tokens: 8999 } }, { reasoning_effort: 'medium' }],
    [
      'an effort, which outranks a budget',
      { output_config: { effort: 'max' }, thinking: { type: 'enabled', budget_tokens: 1024 } },
      { reasoning_effort: 'max' },
    ],
  ])('of messages: %s', (_name, fields, expected) => {
    expect(messageRequest(fields)).toMatchObject(expected)
  })

  test('and add nothing where they are not sent, so that the digest of other requests stays what it was', () => {
    const request = {
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
      max_output_tokens: 512,
      tools: [{ name: 'f', parameters: written(schema) }],
      tool_choice: { name: 'f' },
      response_format: { type: 'json_schema', name: 'n', schema: written(schema) },
    }
    const fields = {
      tools: [tool('f', { strict: false })],
      tool_choice: { type: 'function', function: { name: 'f' } },
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: null } },
    }
    expect(chatRequest(fields)).toEqual(request)
    expect(messageRequest({ thinking: { type: 'adaptive' }, tools: [messageTool('f')] })).toEqual({
      messages: request.messages,
      max_output_tokens: 9000,
      tools: request.tools,
    })
  })
})

const named = (name: string) => ({ type: 'function', function: { name } })

describe('known options that cannot be kept are refused with their field', () => {
  test.each<[string, object, string]>([
    ['a choice of an unknown tool', { tools: [tool('f')], tool_choice: named('g') }, 'tool_choice'],
    [
      'a choice of a custom tool',
      { tools: [tool('f')], tool_choice: { type: 'custom', custom: { name: 'g' } } },
      'tool_choice',
    ],
    ['a required tool without any', { tool_choice: 'required' }, 'tool_choice'],
    ['a required tool among hosted ones', { tools: [{ type: 'web_search' }], tool_choice: 'required' }, 'tool_choice'],
    ['a malformed choice', { tools: [tool('f')], tool_choice: 5 }, 'tool_choice'],
    ['an unknown word', { tools: [tool('f')], tool_choice: 'any' }, 'tool_choice'],
    [
      'an older choice of an unknown function',
      { functions: [{ name: 'f' }], function_call: { name: 'g' } },
      'function_call',
    ],
    [
      'allowed tools that are unknown',
      {
        tools: [tool('f')],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named('g')] } },
      },
      'tool_choice',
    ],
    [
      'allowed tools without a mode',
      { tools: [tool('f')], tool_choice: { type: 'allowed_tools', allowed_tools: { tools: [named('f')] } } },
      'tool_choice.allowed_tools',
    ],
    [
      'a function without a name',
      { tools: [{ type: 'function', function: { parameters: schema } }] },
      'tools[0].function.name',
    ],
    ['parameters as text', { tools: [tool('f', { parameters: '{}' })] }, 'tools[0].function.parameters'],
    [
      'parameters of an older function as a list',
      { functions: [{ name: 'f', parameters: [] }] },
      'functions[0].parameters',
    ],
    ['a description that is no text', { tools: [tool('f', { description: 7 })] }, 'tools[0].function.description'],
    ['strictness as text', { tools: [tool('f', { strict: 'true' })] }, 'tools[0].function.strict'],
    [
      'parameters of a function without a type',
      { tools: [{ function: { name: 'f', parameters: '' } }] },
      'tools[0].function.parameters',
    ],
  ])('of chat completions: %s', (_name, fields, param) => {
    expect(() => chatRequest(fields)).toThrow(expect.objectContaining({ code: 'invalid_field', param }))
  })

  test.each<[string, object, string]>([
    [
      'a choice of an unknown tool',
      { tools: [messageTool('f')], tool_choice: { type: 'tool', name: 'g' } },
      'tool_choice',
    ],
    ['any tool without one', { tool_choice: { type: 'any' } }, 'tool_choice'],
    ['a choice as a word', { tools: [messageTool('f')], tool_choice: 'auto' }, 'tool_choice'],
    [
      'a flag as text',
      { tools: [messageTool('f')], tool_choice: { type: 'auto', disable_parallel_tool_use: 'yes' } },
      'tool_choice.disable_parallel_tool_use',
    ],
    ['a tool without a name', { tools: [{ input_schema: schema }] }, 'tools[0].name'],
    ['a schema as text', { tools: [messageTool('f', { input_schema: '{}' })] }, 'tools[0].input_schema'],
    ['a description that is no text', { tools: [messageTool('f', { description: [] })] }, 'tools[0].description'],
    ['strictness as a number', { tools: [messageTool('f', { strict: 1 })] }, 'tools[0].strict'],
    ['a format of another type', { output_config: { format: { type: 'json_object' } } }, 'output_config.format'],
    ['a format without a schema', { output_format: { type: 'json_schema' } }, 'output_format.schema'],
    [
      'a budget that leaves no output',
      { thinking: { type: 'enabled', budget_tokens: 9000 } },
      'thinking.budget_tokens',
    ],
  ])('of messages: %s', (_name, fields, param) => {
    expect(() => messageRequest(fields)).toThrow(expect.objectContaining({ code: 'invalid_field', param }))
  })
})

const text = (value: string) => ({ type: 'text', text: value })

describe('a conversation in which nothing is said is refused', () => {
  test.each<[string, (fields: object) => object, object]>([
    ['an empty text', chatRequest, { messages: [{ role: 'user', content: '' }] }],
    ['no parts', chatRequest, { messages: [{ role: 'user', content: [] }] }],
    ['an empty system text', chatRequest, { messages: [{ role: 'system', content: '' }] }],
    [
      'an empty turn of each',
      chatRequest,
      {
        messages: [
          { role: 'user', content: '' },
          { role: 'assistant', content: '' },
        ],
      },
    ],
    [
      'empty blocks',
      messageRequest,
      { system: [text('')], messages: [{ role: 'user', content: [text(''), text('')] }] },
    ],
    [
      'thinking only',
      messageRequest,
      {
        messages: [
          { role: 'assistant', content: [{ type: 'thinking', thinking: 'x' }, { type: 'redacted_thinking' }] },
        ],
      },
    ],
  ])('%s', (_name, request, fields) => {
    expect(() => request(fields)).toThrow(expect.objectContaining({ code: 'invalid_field', param: 'messages' }))
  })

  test('but not one with a system text, an image, a call or its result', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
    expect(() => chatRequest({ messages: [{ role: 'system', content: 'Sing.' }] })).not.toThrow()
    expect(() =>
      chatRequest({
        messages: [
          { role: 'assistant', content: null, tool_calls: [call] },
          { role: 'tool', tool_call_id: 'c', content: '' },
        ],
      }),
    ).not.toThrow()
  })
})

const GEMINI: Carrier = { adapter: 'gemini', upstreamModel: 'gemini-3.6-flash', options: {} }
const OLD_GEMINI: Carrier = { ...GEMINI, upstreamModel: 'gemini-2.5-pro' }
const OPENAI: Carrier = { adapter: 'openai-compatible', upstreamModel: 'gpt-4.1-mini', options: {} }
const VERBOSE: Carrier = { ...OPENAI, options: { send_verbosity: true, maximum_stop_sequences: 0 } }
const FEW_TOOLS: Carrier = { ...OPENAI, options: { maximum_tools: 127 } }
const MANY_TOOLS: Carrier = { ...OPENAI, options: { maximum_tools: 1000 } }
const ANTHROPIC: Carrier = { adapter: 'anthropic', upstreamModel: 'claude-opus-4-8', options: {} }
const UNFORCED: Carrier = { ...ANTHROPIC, upstreamModel: 'claude-sonnet-5-5' }
const servedBy = (...carriers: Carrier[]): Catalog => ({ ...smallCatalog, carriers: { [TEXT_MODEL]: carriers } })
const quotedBy = (carriers: Carrier[], fields: object) => () => quoteOf(chat, chatBody(fields), servedBy(...carriers))
const unsupported = (param: string) => expect.objectContaining({ code: 'request_unsupported', param })

const stops = (count: number) => Array.from({ length: count }, (_, index) => `stop ${index}`)
const tools = (count: number) => Array.from({ length: count }, (_, index) => tool(`f${index}`))
/** A history in which the model called a tool as often in one message. */
const calls = (count: number) => {
  const ids = Array.from({ length: count }, (_, index) => `call_${index}`)
  const called = ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }))
  const results = ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'done' }))
  return { tools: tools(1), messages: [...hello, { role: 'assistant', tool_calls: called }, ...results] }
}
const long = (length: number) => 'a'.repeat(length)

describe('what no deployment of the model takes is refused before the price', () => {
  const json = { tools: [tool('f')], response_format: { type: 'json_object' } }
  const prefilled = { messages: [...hello, { role: 'assistant', content: 'I' }] }
  const one = { tools: tools(1) }
  const named = { type: 'function', function: { name: 'f0' } }
  test.each<[string, object, string, refusing: Carrier[], taking: Carrier[]]>([
    ['4 stops', { stop: stops(4) }, 'stop', [VERBOSE], [OPENAI, GEMINI, ANTHROPIC]],
    ['5 stops', { stop: stops(5) }, 'stop', [OPENAI, VERBOSE], [GEMINI, ANTHROPIC]],
    ['6 stops', { stop: stops(6) }, 'stop', [OPENAI, GEMINI], [ANTHROPIC]],
    ['a blank stop', { stop: ['\n'] }, 'stop', [ANTHROPIC], [GEMINI, OPENAI]],
    ['a verbosity', { verbosity: 'low' }, 'verbosity', [GEMINI, OPENAI, ANTHROPIC], [VERBOSE]],
    ['tools with JSON', json, 'response_format', [OLD_GEMINI], [GEMINI, OPENAI, ANTHROPIC]],
    ['a prefill', prefilled, 'messages', [GEMINI, ANTHROPIC], [OLD_GEMINI, OPENAI]],
    ['128 tools', { tools: tools(128) }, 'tools', [FEW_TOOLS], [GEMINI, OPENAI, ANTHROPIC]],
    ['129 tools', { tools: tools(129) }, 'tools', [OPENAI], [GEMINI, ANTHROPIC, MANY_TOOLS]],
    ['129 functions', { functions: tools(129).map((each) => each.function) }, 'tools', [OPENAI], [GEMINI, ANTHROPIC]],
    ['513 tools', { tools: tools(513) }, 'tools', [OPENAI, GEMINI], [ANTHROPIC, MANY_TOOLS]],
    ['128 calls at once', calls(128), 'messages', [FEW_TOOLS], [GEMINI, OPENAI, ANTHROPIC]],
    ['129 calls at once', calls(129), 'messages', [OPENAI], [GEMINI, ANTHROPIC, MANY_TOOLS]],
    ['any call', { ...one, tool_choice: 'required' }, 'tool_choice', [UNFORCED], [GEMINI, OPENAI, ANTHROPIC]],
    ['one call', { ...one, tool_choice: named }, 'tool_choice', [UNFORCED], [GEMINI, OPENAI, ANTHROPIC]],
    ['a space', { tools: [tool('my tool')] }, 'tools', [GEMINI, OPENAI, ANTHROPIC], []],
    ['a dot', { tools: [tool('my.tool')] }, 'tools', [OPENAI, ANTHROPIC], [GEMINI]],
    ['an umlaut', { tools: [tool('größe')] }, 'tools', [GEMINI, OPENAI, ANTHROPIC], []],
    ['a leading digit', { tools: [tool('7zip')] }, 'tools', [GEMINI], [OPENAI, ANTHROPIC]],
    ['a leading dash', { tools: [tool('-f')] }, 'tools', [GEMINI], [OPENAI, ANTHROPIC]],
    ['65 letters', { tools: [tool(long(65))] }, 'tools', [OPENAI], [GEMINI, ANTHROPIC]],
    ['129 letters', { tools: [tool(long(129))] }, 'tools', [GEMINI, OPENAI, ANTHROPIC], []],
    ['one name twice', { tools: [tool('f'), tool('f')] }, 'tools', [GEMINI, ANTHROPIC], [OPENAI]],
    [
      'a call in the history',
      {
        messages: [
          ...hello,
          {
            role: 'assistant',
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'a b', arguments: '{}' } }],
          },
          { role: 'tool', tool_call_id: 'c', content: 'x' },
        ],
      },
      'messages',
      [GEMINI, OPENAI, ANTHROPIC],
      [],
    ],
    [
      'an empty turn beside a system text',
      {
        messages: [
          { role: 'system', content: 'S' },
          { role: 'user', content: '' },
        ],
      },
      'messages',
      [GEMINI, ANTHROPIC],
      [OPENAI],
    ],
    ['a blank turn', { messages: [{ role: 'user', content: ' \n' }] }, 'messages', [ANTHROPIC], [GEMINI, OPENAI]],
  ])('%s', (_name, fields, param, refusing, taking) => {
    for (const carrier of refusing) expect(quotedBy([carrier], fields)).toThrow(unsupported(param))
    expect(quotedBy(refusing, fields)).toThrow(unsupported(param))
    for (const carrier of taking) {
      expect(quotedBy([carrier], fields)).not.toThrow()
      expect(quotedBy([...refusing, carrier], fields)).not.toThrow()
    }
  })

  test('the error names the model, the rule and the name, and no vendor', () => {
    expect(quotedBy([GEMINI], { tools: [tool('my tool')] })).toThrow(
      /^tools: textmodel-2\.5-pro does not take a tool name that does not begin .*; got "my tool"\. Nothing was charged\.$/,
    )
  })

  test('messages name the field of their own dialect', () => {
    expect(messageQuoted({ stop_sequences: stops(6) })).toThrow(unsupported('stop_sequences'))
    expect(
      messageQuoted({ tools: [messageTool('f')], output_config: { format: { type: 'json_schema', schema } } }),
    ).toThrow(unsupported('output_config.format'))
  })

  test('recordings: speakers, sounds and times of characters', () => {
    for (const fields of [{ diarize: true }, { tag_audio_events: true }, { timestamps: 'character' }]) {
      expect(recordingQuotedBy(['openai-compatible'], fields)).toThrow(unsupported(Object.keys(fields)[0] ?? ''))
      expect(recordingQuotedBy(['openai-compatible', 'elevenlabs'], fields)).not.toThrow()
    }
    expect(recordingQuotedBy(['openai-compatible'], { timestamps: 'word', num_speakers: 2 })).not.toThrow()
  })

  test('but nothing where the deployments are not known, as with the catalog of an earlier quote', () => {
    expect(() => quoteOf(chat, chatBody({ tools: [tool('my tool')] }))).not.toThrow()
  })
})

test('of more tools than a vendor takes, those that a request allows count', () => {
  const tool_choice = {
    type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'f128' } }] },
  }
  expect(quotedBy([OPENAI], { tools: tools(129), tool_choice })).not.toThrow()
  expect(() =>
    quoteOf(
      message,
      messageBody({ tools: tools(129).map(({ function: { name } }) => ({ name, input_schema: schema })) }),
      servedBy(OPENAI),
    ),
  ).toThrow(unsupported('tools'))
})

function messageQuoted(fields: object) {
  return () => quoteOf(message, messageBody(fields), servedBy(OLD_GEMINI))
}

function recordingQuotedBy(adapters: Carrier['adapter'][], fields: object) {
  return () => {
    const body = transcriptions.bodySchema.parse({ model: 'speechvendor/scribe-v2', ...fields })
    const carriers = adapters.map((adapter) => ({ adapter, upstreamModel: 'm', options: {} }))
    const catalog = { ...publishedCatalog, carriers: { 'speechvendor/scribe-v2': carriers } }
    const audio = { sha256: 'a'.repeat(64), bytes: 9, durationMs: 9000 }
    return transcriptions.quote(transcriptions.effectiveRequest(body, audio, catalog), catalog)
  }
}

test('what is offered knows the deployments that are not drained, and its version does not depend on them', () => {
  const served = { adapter: 'openai-compatible', base_url: 'http://b', serves: [TEXT_MODEL] } as const
  const fileOf = (upstream_model: string) =>
    parseDeployments({
      deployments: [
        { ...served, name: 'a', upstream_model, options: { send_top_k: true } },
        { ...served, name: 'b', upstream_model: 'other' },
      ],
    })
  const control = { isDrained: true } as DeploymentControl
  const [one, two] = ['x', 'y'].map((upstreamModel) =>
    catalogsOf(
      { overrides: { models: {} }, file: fileOf(upstreamModel), controls: new Map([['b', control]]) },
      'refuse',
    ),
  )
  expect(one?.offered.carriers).toEqual({
    [TEXT_MODEL]: [{ adapter: 'openai-compatible', upstreamModel: 'x', options: { send_top_k: true } }],
  })
  expect(two?.offered.carriers).not.toEqual(one?.offered.carriers)
  expect(two?.offered.version).toBe(one?.offered.version)
})
