import { expect, test } from 'vitest'
import { createCatalog } from '#shared/catalog/catalog.ts'
import { canonicalJson } from '#shared/digests/canonical-json.ts'
import { CHAT_OPTIONS } from '#shared/operations/text/option-rules.ts'
import { dataUri, jpegHead, pngHead } from './sample-images.ts'
import { effectiveOf, IMAGE_MODEL, SPEECH_MODEL, smallCatalog, TEXT_MODEL } from './small-catalog.ts'

const [chat, message] = ['createChatCompletion', 'createMessage'] as const
const hello = [{ role: 'user', content: 'Hello' }]

function chatRequest(fields: object): unknown {
  return plainRequest(chat, { model: TEXT_MODEL, messages: hello, ...fields })
}

function messageRequest(fields: object): unknown {
  return plainRequest(message, { model: TEXT_MODEL, messages: hello, max_tokens: 9, ...fields })
}

/** Returns the request with its schemas as plain values, whose order does not matter here. */
function plainRequest(operation: typeof chat | typeof message, body: object): unknown {
  const effective = effectiveOf(operation, body) as { readonly request: object }
  return JSON.parse(JSON.stringify(effective.request))
}

const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const weather = { type: 'function', function: { name: 'weather', parameters } }
const reordered = {
  function: {
    parameters: { required: ['city'], properties: { city: { type: 'string' } }, type: 'object' },
    name: 'weather',
  },
  type: 'function',
}

const sameChat: [what: string, left: object, right: object][] = [
  ['defaults', {}, { max_tokens: 512, stream: false }],
  [
    'string content and one text part',
    {},
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }] },
  ],
  [
    'an empty part next to text',
    {},
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hello' },
            { type: 'text', text: '' },
          ],
        },
      ],
    },
  ],
  [
    'extras that are not forwarded',
    {},
    {
      store: false,
      user: 'ann',
      metadata: { a: [1] },
      service_tier: 'auto',
      logprobs: false,
      top_k: 0,
      verbosity: 'medium',
      parallel_tool_calls: true,
      prompt_cache_key: 'k',
      stream_options: {},
    },
  ],
  [
    'options that are null and their absence',
    {},
    Object.fromEntries(
      Object.keys({ ...CHAT_OPTIONS, response_format: 0, tool_choice: 0, function_call: 0 }).map((name) => [
        name,
        null,
      ]),
    ),
  ],
  ['no tools and their absence', {}, { tools: [], tool_choice: 'auto' }],
  ['text format and its absence', {}, { response_format: { type: 'text' } }],
  [
    'allowed tools and these tools alone',
    { tools: [weather], tool_choice: 'required' },
    {
      tools: [weather, { type: 'function', function: { name: 'clock' } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'weather' } }] },
      },
    },
  ],
  [
    'system and developer',
    { messages: [{ role: 'system', content: 'S' }, ...hello] },
    { messages: [{ role: 'developer', content: 'S' }, ...hello] },
  ],
  ['auto choice and its absence', { tools: [weather] }, { tools: [weather], tool_choice: 'auto' }],
  ['property order', { tools: [weather] }, { tools: [reordered] }],
  ['one stop text and a list', { stop: 'x' }, { stop: ['x'] }],
  ['a null stop and its absence', {}, { stop: null }],
  ['both names of the output ceiling', { max_tokens: 7 }, { max_completion_tokens: 7 }],
  ['the lower of two ceilings', { max_tokens: 7 }, { max_tokens: 7, max_completion_tokens: 9 }],
]

test.each(sameChat)('yields the same chat request for %s', (_what, left, right) => {
  expect(canonicalJson(chatRequest(left) as never)).toBe(canonicalJson(chatRequest(right) as never))
})

function toolUse(input: object) {
  return [{ type: 'tool_use', id: '1', name: 'f', input }]
}

test('equivalent message bodies yield the same request', () => {
  const spelled = messageRequest({
    system: 'Be brief.',
    messages: [...hello, { role: 'assistant', content: toolUse({ a: 1, b: 2 }) }],
  })
  const respelled = messageRequest({
    stream: false,
    system: [{ type: 'text', text: 'Be brief.', cache_control: {} }],
    messages: [
      { content: [{ type: 'text', text: 'Hello' }], role: 'user' },
      { role: 'assistant', content: [{ type: 'thinking', thinking: 'hm' }, ...toolUse({ b: 2, a: 1 })] },
    ],
  })
  expect(canonicalJson(respelled as never)).toBe(canonicalJson(spelled as never))
})

const part = (text: string, fields: object) => ({ type: 'text', text, ...fields })

const CACHED = { cache_control: { type: 'ephemeral', ttl: '1h' } }

test('keeps where a message caller wants the prompt cached: tools, system, blocks, and the end of the request', () => {
  const request = messageRequest({
    system: [
      { type: 'text', text: 'Rules.', ...CACHED },
      { type: 'text', text: 'Today.' },
    ],
    tools: [{ name: 'clock', input_schema: { type: 'object' }, ...CACHED }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hello', ...CACHED }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'clock', input: {}, ...CACHED }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: '1', content: '12:00' }] },
    ],
    cache_control: { type: 'ephemeral' },
  })
  expect(request).toMatchObject({
    system: 'Rules.\n\nToday.',
    system_breakpoints: ['Rules.'.length],
    tools: [{ name: 'clock', cache_breakpoint: true }],
    messages: [
      { parts: [{ text: 'Hello', cache_breakpoint: true }] },
      { parts: [{ type: 'tool_call', cache_breakpoint: true }] },
      { parts: [{ type: 'tool_result', cache_breakpoint: true }] },
    ],
  })
})

test.each([
  ['the only text', [{ type: 'text', text: 'noon', ...CACHED }], true],
  [
    'the last text',
    [
      { type: 'text', text: 'noon' },
      { type: 'text', text: 'UTC', ...CACHED },
    ],
    true,
  ],
  [
    'an earlier text',
    [
      { type: 'text', text: 'noon', ...CACHED },
      { type: 'text', text: 'UTC' },
    ],
    false,
  ],
])('keeps a breakpoint of %s within the result of a tool at its end', (_name, content, isKept) => {
  const request = messageRequest({
    messages: [
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'clock', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: '1', content }] },
    ],
  })
  const result = { type: 'tool_result', ...(isKept ? { cache_breakpoint: true } : {}) }
  expect(request).toMatchObject({ messages: [{}, { parts: [result] }] })
  expect(JSON.stringify(request).includes('cache_breakpoint')).toBe(isKept)
})

test('keeps them in chat requests too, and ignores what is no breakpoint', () => {
  const request = chatRequest({
    messages: [
      { role: 'system', content: [part('Rules.', CACHED)] },
      { role: 'user', content: [part('One', CACHED), part('Two', { cache_control: 'ephemeral' }), part('Three', {})] },
    ],
    tools: [{ ...weather, ...CACHED }],
  })
  expect(request).toMatchObject({
    system_breakpoints: ['Rules.'.length],
    messages: [{ parts: [{ cache_breakpoint: true }, { type: 'text', text: 'Two' }, { type: 'text', text: 'Three' }] }],
    tools: [{ cache_breakpoint: true }],
  })
  expect(JSON.stringify(request).match(/cache_breakpoint/g)).toHaveLength(2)
})

test('a different text, model, output ceiling or option changes the request', () => {
  const variants = [
    {},
    { messages: [{ role: 'user', content: 'Hullo' }] },
    { max_tokens: 511 },
    { temperature: 0 },
    { tools: [weather] },
    { response_format: { type: 'json_object' } },
    { include_thought_signatures: true },
  ]
  const texts = variants.map((fields) =>
    canonicalJson(effectiveOf(chat, { model: TEXT_MODEL, messages: hello, ...fields })),
  )
  expect(new Set(texts).size).toBe(variants.length)
})

test('translates a complete chat history with tools, images and refusals', () => {
  const request = chatRequest({
    messages: [
      { role: 'system', content: 'One' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image_url', image_url: { url: dataUri(jpegHead(9, 9)), detail: 'low' } },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
          { id: 'c2', type: 'function', function: { name: 'clock', arguments: 'now!' } },
          { id: 'c3', type: 'custom', custom: { name: 'shell', input: 'ls -l' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'Rain' },
      { role: 'tool', tool_call_id: 'c2', content: [{ type: 'text', text: '12:00' }] },
      { role: 'developer', content: 'Two' },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] },
      { role: 'critic', content: 'Why?' },
    ],
  })
  expect(request).toEqual({
    system: 'One\n\nTwo',
    messages: [
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'Look' },
          {
            type: 'image',
            source: { kind: 'inline', media_type: 'image/jpeg', base64: jpegHead(9, 9).toString('base64') },
          },
        ],
      },
      {
        role: 'assistant',
        parts: [
          { type: 'tool_call', id: 'c1', name: 'weather', arguments_json: '{"city":"Oslo"}' },
          { type: 'tool_call', id: 'c2', name: 'clock', arguments_json: '{"raw_arguments":"now!"}' },
          { type: 'tool_call', id: 'c3', name: 'shell', arguments_json: '{"raw_arguments":"ls -l"}' },
        ],
      },
      {
        role: 'user',
        parts: [
          { type: 'tool_result', tool_call_id: 'c1', name: 'weather', text: 'Rain' },
          { type: 'tool_result', tool_call_id: 'c2', name: 'clock', text: '12:00' },
        ],
      },
      { role: 'assistant', parts: [{ type: 'text', text: 'No.' }] },
      { role: 'user', parts: [{ type: 'text', text: 'Why?' }] },
    ],
    max_output_tokens: 512,
  })
})

test('links older function calls to their results by name', () => {
  const request = chatRequest({
    messages: [
      ...hello,
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '' } },
      { role: 'function', name: 'f', content: '1' },
    ],
    functions: [{ name: 'f' }],
    function_call: { name: 'f' },
  })
  expect(request).toMatchObject({
    messages: [
      {},
      { parts: [{ type: 'tool_call', id: 'function_f', arguments_json: '{}' }] },
      { parts: [{ type: 'tool_result', tool_call_id: 'function_f', name: 'f', text: '1' }] },
    ],
    tools: [{ name: 'f', parameters: { type: 'object', properties: {} } }],
    tool_choice: { name: 'f' },
  })
})

test('turns a lone system text into the user message', () => {
  const expected = [{ role: 'user', parts: [{ type: 'text', text: 'Sing.' }] }]
  expect(chatRequest({ messages: [{ role: 'system', content: 'Sing.' }] })).toEqual({
    messages: expected,
    max_output_tokens: 512,
  })
})

test('forwards supported extra properties under the name of each family', () => {
  const sampling = { temperature: 0.5, top_p: 0.9, top_k: 40, seed: 7, presence_penalty: -2, frequency_penalty: 2 }
  expect(chatRequest({ ...sampling, stop: ['a', 'b'] })).toMatchObject({ ...sampling, stop_sequences: ['a', 'b'] })
  expect(messageRequest({ ...sampling, stop_sequences: ['a'] })).toMatchObject({ ...sampling, stop_sequences: ['a'] })
})

test('forwards tools, tool choice and structured output from the format of each family', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } } }
  const format = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema } }
  const tool = { name: 'weather', description: 'Reports the weather.', parameters }
  expect(
    chatRequest({
      tools: [{ type: 'function', function: tool }, { type: 'web_search' }],
      tool_choice: 'required',
      response_format: format,
    }),
  ).toMatchObject({
    tools: [tool],
    tool_choice: 'required',
    response_format: { type: 'json_schema', name: 'answer', schema, strict: true },
  })
  const definition = { name: 'weather', description: 'Reports the weather.', input_schema: parameters }
  expect(
    messageRequest({
      tools: [definition, { type: 'web_search_20250305', name: 'web_search' }],
      tool_choice: { type: 'tool', name: 'weather' },
      output_config: { format: { type: 'json_schema', schema } },
    }),
  ).toMatchObject({
    tools: [tool],
    tool_choice: { name: 'weather' },
    response_format: { type: 'json_schema', schema },
  })
  expect(messageRequest({ tools: [definition], tool_choice: { type: 'any' } })).toMatchObject({
    tool_choice: 'required',
  })
})

test('keeps text, images and error flag of a tool result in messages', () => {
  const source = { type: 'base64', media_type: 'image/png', data: pngHead(5, 5).toString('base64') }
  const request = messageRequest({
    messages: [
      { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'shot', input: {} }] },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 't',
            is_error: true,
            content: [
              { type: 'text', text: 'Look' },
              { type: 'image', source },
            ],
          },
        ],
      },
    ],
  })
  expect(request).toMatchObject({
    messages: [
      {},
      {
        role: 'user',
        parts: [
          { type: 'tool_result', tool_call_id: 't', name: 'shot', text: 'Look', is_error: true },
          { type: 'image', source: { kind: 'inline', media_type: 'image/png' } },
        ],
      },
    ],
  })
})

test('image and speech requests spell out defaults and drop the deprecated size [spec E42]', () => {
  const image = {
    operation: 'createImageGeneration',
    model: IMAGE_MODEL,
    prompt: 'x',
    n: 1,
    image_size: '1K',
    aspect_ratio: '1:1',
    response_format: 'url',
  }
  expect(effectiveOf('createImageGeneration', { model: IMAGE_MODEL, prompt: 'x' })).toEqual(image)
  expect(effectiveOf('createImageGeneration', { model: IMAGE_MODEL, prompt: 'x', size: '1024x1024', n: 1 })).toEqual(
    image,
  )
  const speech = {
    operation: 'createSpeech',
    model: SPEECH_MODEL,
    input: 'x',
    voice: 'darian',
    response_format: 'mp3',
    speed_thousandths: 1000,
  }
  expect(effectiveOf('createSpeech', { model: SPEECH_MODEL, input: 'x' })).toEqual(speech)
  expect(effectiveOf('createSpeech', { model: SPEECH_MODEL, input: 'x', speed: 1, voice: 'darian' })).toEqual(speech)
  expect(effectiveOf('createSpeech', { model: SPEECH_MODEL, input: 'x', speed: 0.703 })).toEqual({
    ...speech,
    speed_thousandths: 703,
  })
})

test('speech without a voice is spoken by the default voice of the catalog [spec E55]', () => {
  const models = smallCatalog.models.map((model) =>
    model.category === 'text_to_speech' ? { ...model, defaultVoice: 'bella' } : model,
  )
  const catalog = createCatalog({ ...smallCatalog, models })
  const body = { model: SPEECH_MODEL, input: 'x' }
  expect(effectiveOf('createSpeech', body, catalog)).toMatchObject({ voice: 'bella' })
  expect(effectiveOf('createSpeech', { ...body, voice: 'darian' }, catalog)).toMatchObject({ voice: 'darian' })
  const without = createCatalog({ ...smallCatalog, models: [] })
  expect(effectiveOf('createSpeech', body, without)).toMatchObject({ voice: 'darian' })
})
