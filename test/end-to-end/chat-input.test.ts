import { describe, test } from 'vitest'
import { allSay, describeFields, describeJsonBody, useJsonEndpoint } from '../support/http/json-endpoint.ts'
import {
  PNG,
  TEXT_BOUNDS,
  testExtraProperties,
  testMissingMembers,
  testModelLimits,
  textFieldRules,
} from '../support/http/text-input.ts'

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
    refused: allSay('surrogate', '\ud800'),
  },
])

const ask = (content: unknown, more: Record<string, unknown> = {}) =>
  endpoint.bodyWith({ messages: [{ role: 'user', content, ...more }] })
const imageOf = (url: unknown) => ask([{ type: 'image_url', image_url: { url } }])

const assistant = (changes: Record<string, unknown>) => [
  { role: 'user', content: 'a' },
  { role: 'assistant', ...changes },
  { role: 'tool', tool_call_id: 'call_1', content: '7 minutes' },
]

describe('messages', () => {
  testMissingMembers(endpoint, [
    [[{ role: 'user', content: [{ type: 'image_url' }] }], 'messages[0].content[0].image_url'],
    [[{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }], 'messages[0].content[0].image_url.url'],
    [[{ role: 'user', content: [{ type: 'refusal' }] }], 'messages[0].content[0].refusal'],
  ])
  test.each(['system', 'developer', 'user', 'assistant', 'tool', 'function', 'critic', ''])(
    'the role may be any string: %j',
    async (role) => {
      await endpoint.expectChallenged(ask('a', { role }))
    },
  )
  test.each([
    ['a refusal', [{ type: 'refusal', refusal: 'I will not.' }]],
    [
      'text beside an image',
      [
        { type: 'text', text: 'a' },
        { type: 'image_url', image_url: { url: 'https://a.example' } },
      ],
    ],
    ['two hundred items', Array.from({ length: 200 }, () => ({ type: 'text', text: 'a' }))],
  ])('the content may be %s', async (_, content) => {
    await endpoint.expectChallenged(ask(content))
  })
  test.each(['image', 'tool_use', 'tool_result', 'file', 'input_text', '', 5])(
    'an item of type %j is refused with the three that there are',
    async (type) => {
      const param = 'messages[0].content[0].type'
      const says = [param, '"text", "image_url", "refusal"']
      await endpoint.expectRefused(ask([{ type }]), { code: 'invalid_field', param, says })
    },
  )

  const call = { id: 'call_1', type: 'function', function: { name: 'look_up', arguments: '{"stop":"Depot"}' } }
  test.each([
    ['null beside tool_calls', { content: null, tool_calls: [call] }],
    ['text beside tool_calls', { content: 'One moment.', tool_calls: [call] }],
    ['a list beside tool_calls', { content: [{ type: 'text', text: 'One moment.' }], tool_calls: [call] }],
    ['beside calls of another kind', { content: '', tool_calls: [{ id: 'a', type: 'custom', custom: {} }] }],
    [
      'beside arguments that are no JSON',
      { content: null, tool_calls: [{ ...call, function: { name: 'f', arguments: '{' } }] },
    ],
    ['null refusal and audio', { content: 'a', refusal: null, audio: null }],
  ])('an assistant’s content may be %s', async (_, changes) => {
    await endpoint.expectChallenged(endpoint.bodyWith({ messages: assistant(changes) }))
  })
  test.each([
    ['null without tool_calls', { content: null }],
    ['null beside no tool_calls', { content: null, tool_calls: [] }],
    ['null beside null tool_calls', { content: null, tool_calls: null }],
  ])('an assistant’s content must not be %s', async (_, changes) => {
    const param = 'messages[1].content'
    await endpoint.expectRefused(endpoint.bodyWith({ messages: assistant(changes) }), {
      code: 'invalid_field',
      param,
      says: [param, 'must be a string or an array'],
    })
  })
  test.each([
    ['in a list', [{ type: 'text', text: '7 minutes' }]],
    ['empty', ''],
  ])('a tool’s result may be %s', async (_, content) => {
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
  ])('may be %s', async (url) => {
    await endpoint.expectChallenged(imageOf(url))
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
  ])('must not be %j', async (url, says) => {
    const param = 'messages[0].content[0].image_url.url'
    await endpoint.expectRefused(imageOf(url), { code: 'invalid_field', param, says: [param, says] })
  })
  test.each(['https://images.example/tram.png', null, 5, []])('image_url must not be %j', async (image_url) => {
    const param = 'messages[0].content[0].image_url'
    const says = [param, 'must be an object']
    await endpoint.expectRefused(ask([{ type: 'image_url', image_url }]), { code: 'invalid_field', param, says })
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
