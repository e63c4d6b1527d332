import { describe, test } from 'vitest'
import { describeFields, describeJsonBody, rejectedWith, useJsonEndpoint } from '../../support/http/json-endpoint.ts'
import {
  PNG,
  TEXT_BOUNDS,
  testExtraProperties,
  testMissingMembers,
  testModelLimits,
  textFieldRules,
} from '../../support/http/text-input.ts'

const endpoint = useJsonEndpoint({
  path: '/v1/chat/completions',
  family: 'openai',
  bounds: TEXT_BOUNDS,
  valid: { model: 'textmodel-2.5-pro', messages: [{ role: 'user', content: 'hello' }] },
})

describeFields(endpoint, [
  ...textFieldRules(false),
  {
    name: 'response_format',
    title: 'response_format [spec E10]',
    accepted: [
      null,
      5,
      'json',
      [],
      {},
      { type: 'text' },
      { type: 'json_object' },
      { type: 'unheard of' },
      { type: 'json_schema', json_schema: { name: 'stop', schema: { type: 'object' } } },
      { type: 'json_schema', json_schema: null },
    ],
    refused: rejectedWith('surrogate', '\ud800'),
  },
  {
    name: 'max_completion_tokens',
    title: 'max_completion_tokens',
    accepted: [null, 1, 65_536],
    refused: [
      ...rejectedWith('must be at most 65536', 65_537, 128_000),
      ...rejectedWith('number', '2048', true, [1]),
      ...rejectedWith('must be at least 1', 0),
    ],
  },
  {
    name: 'logprobs',
    title: 'logprobs',
    accepted: [false, null],
    refused: rejectedWith('log probabilities are not offered', true, 1, 'true'),
  },
  {
    name: 'stop',
    title: 'stop',
    accepted: [null, 'a', '', ['a', 'b', 'c', 'd']],
    refused: rejectedWith('a string or an array of strings', 5, [1], {}),
  },
  {
    name: 'n',
    title: 'n',
    accepted: [1, null],
    refused: rejectedWith('must be 1', 2, 0, -1, 1.5, 128, '1', '2', true, [], {}),
  },
])

const bodyWithContent = (content: unknown, more: Record<string, unknown> = {}) =>
  endpoint.bodyWith({ messages: [{ role: 'user', content, ...more }] })
const bodyWithImage = (url: unknown) => bodyWithContent([{ type: 'image_url', image_url: { url } }])

const conversationWith = (assistantMessage: Record<string, unknown>) => [
  { role: 'user', content: 'a' },
  { role: 'assistant', ...assistantMessage },
  { role: 'tool', tool_call_id: 'call_1', content: '7 minutes' },
]

describe('messages', () => {
  testMissingMembers(endpoint, [
    [[{ role: 'user', content: [{ type: 'image_url' }] }], 'messages[0].content[0].image_url'],
    [[{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }], 'messages[0].content[0].image_url.url'],
    [[{ role: 'user', content: [{ type: 'refusal' }] }], 'messages[0].content[0].refusal'],
  ])
  test.each(['system', 'developer', 'user', 'assistant', 'tool', 'function', 'critic', ''])(
    'accepts any string as a message’s role: %j [spec E11]',
    async (role) => {
      await endpoint.expectChallenged(bodyWithContent('a', { role }))
    },
  )
  test.each([
    ['a refusal', [{ type: 'refusal', refusal: 'I will not.' }]],
    [
      'text next to an image',
      [
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: { url: 'https://a.example' } },
      ],
    ],
    ['two hundred items', Array.from({ length: 200 }, () => ({ type: 'text', text: 'a' }))],
  ])('accepts %s as message content [spec E12]', async (_, content) => {
    await endpoint.expectChallenged(bodyWithContent(content))
  })
  test.each(['image', 'tool_use', 'tool_result', 'file', 'input_text', '', 5])(
    'rejects a content item of type %j and names the three supported types [spec E13]',
    async (type) => {
      const param = 'messages[0].content[0].type'
      const says = [param, '"text", "image_url", "refusal"']
      await endpoint.expectRefused(bodyWithContent([{ type }]), { code: 'invalid_field', param, says })
    },
  )

  const call = { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"stop":"Depot"}' } }
  test.each([
    ['null content and tool_calls', { content: null, tool_calls: [call] }],
    ['text content and tool_calls', { content: 'One moment.', tool_calls: [call] }],
    ['a list of content and tool_calls', { content: [{ type: 'text', text: 'One moment.' }], tool_calls: [call] }],
    [
      'tool calls of a custom type',
      { content: '', tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'f', input: 'x' } }] },
    ],
    [
      'tool call arguments that are not JSON',
      { content: null, tool_calls: [{ ...call, function: { name: 'f', arguments: '{' } }] },
    ],
    ['a null refusal and null audio', { content: 'a', refusal: null, audio: null }],
  ])('accepts an assistant message with %s', async (_, assistantMessage) => {
    await endpoint.expectChallenged(endpoint.bodyWith({ messages: conversationWith(assistantMessage) }))
  })
  test.each([
    ['null content and no tool_calls', { content: null }],
    ['null content and empty tool_calls', { content: null, tool_calls: [] }],
    ['null content and null tool_calls', { content: null, tool_calls: null }],
  ])('rejects an assistant message with %s', async (_, assistantMessage) => {
    const param = 'messages[1].content'
    await endpoint.expectRefused(endpoint.bodyWith({ messages: conversationWith(assistantMessage) }), {
      code: 'invalid_field',
      param,
      says: [param, 'must be a string or an array'],
    })
  })
  test.each([
    ['a list', [{ type: 'text', text: '7 minutes' }]],
    ['empty', ''],
  ])('accepts a tool result that is %s', async (_, content) => {
    await endpoint.expectChallenged(endpoint.bodyWith({ messages: [{ role: 'tool', tool_call_id: 'a', content }] }))
  })
})

describe('images', () => {
  test.each([
    `data:image/png;base64,${PNG}`,
    `DATA:IMAGE/PNG;base64,${PNG}`,
    `data:image/jpeg;base64,${PNG}`,
    'https://images.example/tram.png?size=1#top',
    'HTTPS://images.example/',
  ])('accepts the image URL %s', async (url) => {
    await endpoint.expectChallenged(bodyWithImage(url))
  })
  test.each([
    ['http://images.example/tram.png', 'https'],
    ['ftp://images.example/tram.png', 'https'],
    ['file:///etc/passwd', 'https'],
    ['javascript:alert(1)', 'https'],
    ['images.example/tram.png', 'https'],
    ['//images.example/tram.png', 'https'],
    ['https://', 'https'],
    ['https://user:secret@images.example/', 'password'],
    ['garbage', 'https'],
    ['', 'https'],
    [PNG, 'https'],
    [`data:text/plain;base64,${PNG}`, 'image/png'],
    [`data:image/svg+xml;base64,${PNG}`, 'image/png'],
    [`data:image/png,${PNG}`, 'image/png'],
    ['data:image/png;base64,', 'Base64'],
    ['data:image/png;base64,AAAA', 'PNG'],
    [`data:image/png;base64,${PNG.slice(0, -1)}`, 'Base64'],
    [`data:image/png;base64,${PNG.slice(0, 8)} ${PNG.slice(8)}`, 'Base64'],
    ['data:image/png;base64,!!!!', 'Base64'],
    [`${PNG}\ud800`, ''],
    [5, 'string'],
    [null, 'string'],
  ])('rejects the image URL %j', async (url, says) => {
    const param = 'messages[0].content[0].image_url.url'
    await endpoint.expectRefused(bodyWithImage(url), { code: 'invalid_field', param, says: [param, says] })
  })
  test.each(['https://images.example/tram.png', null, 5, []])('rejects %j as image_url', async (image_url) => {
    const param = 'messages[0].content[0].image_url'
    const says = [param, 'must be an object']
    await endpoint.expectRefused(bodyWithContent([{ type: 'image_url', image_url }]), {
      code: 'invalid_field',
      param,
      says,
    })
  })
})

describe('names of tools', () => {
  test.each(['line\nbreak', 'tab\t', '\u0001', '\u0085'])(
    'rejects %j, which every vendor would refuse',
    async (name) => {
      const body = endpoint.bodyWith({
        tools: [{ type: 'function', function: { name, parameters: { type: 'object' } } }],
      })
      await endpoint.expectRefused(body, { code: 'invalid_field', param: 'tools', says: ['tools', 'control'] })
    },
  )
  test('accepts the names that a vendor of the model takes', async () => {
    const names = ['get_weather', 'get-weather', 'find.weather', '7zip', 'x'.repeat(128)]
    for (const name of names)
      await endpoint.expectChallenged(
        endpoint.bodyWith({ tools: [{ type: 'function', function: { name, parameters: { type: 'object' } } }] }),
      )
  })
  test.each(['my tool', 'météo', 'a/b', 'x'.repeat(129)])(
    'rejects %j before the price: no vendor of the model takes it',
    async (name) => {
      const body = endpoint.bodyWith({
        tools: [{ type: 'function', function: { name, parameters: { type: 'object' } } }],
      })
      await endpoint.expectRefused(body, {
        code: 'request_unsupported',
        param: 'tools',
        says: ['tools: textmodel-2.5-pro does not take a tool name', name.slice(0, 40), 'Nothing was charged'],
      })
    },
  )
  test('rejects one in a body that is read on a thread', async () => {
    const body = endpoint.bodyWith({
      messages: [{ role: 'user', content: 'a'.repeat(300_000) }],
      tools: [{ type: 'function', function: { name: 'my tool' } }],
    })
    await endpoint.expectRefused(body, { code: 'request_unsupported', param: 'tools', says: ['my tool'] })
  })
})

describe('extra properties', () => {
  testExtraProperties(endpoint)
})

describe('limits of the models', () => {
  testModelLimits(endpoint)
})

describeJsonBody(endpoint, {
  same: {
    'max_tokens spelled out': { max_tokens: 512 },
    'stream spelled out': { stream: false },
    'no tools': { tools: [] },
    'content as a list': { messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }] },
  },
  other: {
    model: { model: 'textmodel-2.5-flash' },
    message: { messages: [{ role: 'user', content: 'hullo' }] },
    max_tokens: { max_tokens: 511 },
    temperature: { temperature: 0.5 },
    response_format: { response_format: { type: 'json_object' } },
    tool: { tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }] },
  },
})

endpoint.testNothingHappened(150)
