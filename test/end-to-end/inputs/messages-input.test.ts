import { describe, expect, test } from 'vitest'
import { expectErrorBody } from '../../support/http/expect-refusal.ts'
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
  path: '/v1/messages',
  family: 'anthropic',
  bounds: TEXT_BOUNDS,
  valid: { model: 'textmodel-2.5-pro', max_tokens: 512, messages: [{ role: 'user', content: 'hello' }] },
})

describeFields(endpoint, [
  ...textFieldRules(true),
  {
    name: 'system',
    title: 'system [spec E26]',
    accepted: ['', 'Be brief.', [], [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]],
    refused: [
      ...rejectedWith('must be a string or an array', null, 5, true, { type: 'text', text: 'a' }),
      ['\ud800', 'surrogate'],
      [[{ type: 'image' }], '"text"', 'system[0].type'],
      [[{ type: 'tool_use', id: 'a', name: 'f' }], '"text"', 'system[0].type'],
      [['Be brief.'], 'must be an object', 'system[0]'],
      [[{ type: 'text', text: 5 }], 'must be a string', 'system[0].text'],
    ],
  },
])

const bodyWithContent = (content: unknown, role = 'user') => endpoint.bodyWith({ messages: [{ role, content }] })
const bodyWithImage = (source: unknown) => bodyWithContent([{ type: 'image', source }])
const base64 = (changes: Record<string, unknown>) => ({
  type: 'base64',
  media_type: 'image/png',
  data: PNG,
  ...changes,
})
const BLOCK = 'messages[0].content[0]'

describe('messages', () => {
  testMissingMembers(endpoint, [
    [[{ role: 'user', content: [{ type: 'image' }] }], `${BLOCK}.source`],
    [[{ role: 'user', content: [{ type: 'tool_use', name: 'f' }] }], `${BLOCK}.id`],
    [[{ role: 'user', content: [{ type: 'tool_use', id: 'a' }] }], `${BLOCK}.name`],
    [[{ role: 'user', content: [{ type: 'tool_result', content: 'a' }] }], `${BLOCK}.tool_use_id`],
    [[{ role: 'user', content: [{ type: 'image', source: {} }] }], `${BLOCK}.source.type`],
    [[{ role: 'user', content: [{ type: 'image', source: { type: 'url' } }] }], `${BLOCK}.source.url`],
  ])
  test.each(['user', 'assistant', 'system', 'critic', ''])(
    'accepts any string as a message’s role: %j [spec E27]',
    async (role) => {
      await endpoint.expectChallenged(bodyWithContent('a', role))
    },
  )

  const toolUse = { type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { stop: 'Depot' } }
  test.each([
    ['tool_use', toolUse],
    ['tool_use without input', { ...toolUse, input: undefined }],
    ['tool_use with an empty input', { ...toolUse, input: {} }],
    ['tool_result of text', { type: 'tool_result', tool_use_id: 'toolu_1', content: '7 minutes' }],
    ['tool_result without content', { type: 'tool_result', tool_use_id: 'toolu_1' }],
    ['tool_result that failed', { type: 'tool_result', tool_use_id: 'toolu_1', content: 'no', is_error: true }],
    [
      'tool_result of blocks',
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        content: [
          { type: 'text', text: '7 minutes' },
          { type: 'image', source: base64({}) },
        ],
      },
    ],
    ['thinking, as SDKs echo it', { type: 'thinking', thinking: 'hm', signature: 'c2ln' }],
    ['redacted thinking', { type: 'redacted_thinking', data: 'c2ln' }],
  ])('accepts a content block of kind %s [spec E28]', async (_, block) => {
    await endpoint.expectChallenged(bodyWithContent([block, { type: 'text', text: 'a' }], 'assistant'))
  })
  test.each([
    ['a string as input', { ...toolUse, input: 'stop' }, `${BLOCK}.input`, 'must be an object'],
    ['a list as input', { ...toolUse, input: [] }, `${BLOCK}.input`, 'must be an object'],
    ['null as input', { ...toolUse, input: null }, `${BLOCK}.input`, 'must be an object'],
    ['a number as id', { ...toolUse, id: 1 }, `${BLOCK}.id`, 'must be a string'],
    ['null as name', { ...toolUse, name: null }, `${BLOCK}.name`, 'must be a string'],
    [
      'a number as tool result',
      { type: 'tool_result', tool_use_id: 'a', content: 5 },
      `${BLOCK}.content`,
      'string or an array',
    ],
    [
      'tool_use as tool result',
      { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'tool_use' }] },
      `${BLOCK}.content[0].type`,
      '"text"',
    ],
    ['null as tool_use_id', { type: 'tool_result', tool_use_id: null, content: 'a' }, `${BLOCK}.tool_use_id`, 'string'],
  ])('rejects a content block with %s', async (_, block, param, says) => {
    await endpoint.expectRefused(bodyWithContent([block]), { code: 'invalid_field', param, says: [param, says] })
  })
  test.each(['image_url', 'refusal', 'document', 'server_tool_use', '', 5, null])(
    'rejects a content block of type %j and names the supported types [spec E29]',
    async (type) => {
      const says = [`${BLOCK}.type`, '"text", "image", "tool_use", "tool_result"']
      await endpoint.expectRefused(bodyWithContent([{ type }]), { code: 'invalid_field', param: `${BLOCK}.type`, says })
    },
  )
})

describe('images', () => {
  test.each([
    ['base64', base64({})],
    ['base64 declared as another image type', base64({ media_type: 'image/webp' })],
    ['an https URL', { type: 'url', url: 'https://images.example/tram.png' }],
  ])('accepts an image given as %s', async (_, source) => {
    await endpoint.expectChallenged(bodyWithImage(source))
  })
  test.each([
    [{ type: 'url', url: 'http://images.example/tram.png' }, 'url', 'https'],
    [{ type: 'url', url: 'file:///etc/passwd' }, 'url', 'https'],
    [{ type: 'url', url: 'https://user:secret@images.example/' }, 'url', 'password'],
    [{ type: 'url', url: 'garbage' }, 'url', 'https'],
    [{ type: 'url', url: null }, 'url', 'string'],
    [base64({ data: `data:image/png;base64,${PNG}` }), 'data', 'Base64'],
    [base64({ data: `${PNG}\n` }), 'data', 'Base64'],
    [base64({ data: 'AAAA' }), 'data', 'PNG'],
    [base64({ data: '' }), 'data', 'Base64'],
    [base64({ data: 5 }), 'data', 'string'],
    [base64({ media_type: 'image/svg+xml' }), 'media_type', '"image/png"'],
    [base64({ media_type: 'text/plain' }), 'media_type', '"image/png"'],
    [base64({ media_type: null }), 'media_type', '"image/png"'],
    [base64({ type: 'file' }), 'type', '"url"'],
  ])('rejects the image source %j', async (source, member, says) => {
    const param = `${BLOCK}.source.${member}`
    await endpoint.expectRefused(bodyWithImage(source), { code: 'invalid_field', param, says: [param, says] })
  })
  test('rejects a data URL as an image URL without suggesting inline data', async () => {
    const param = `${BLOCK}.source.url`
    const source = { type: 'url', url: `data:image/png;base64,${PNG}` }
    await endpoint.expectRefused(bodyWithImage(source), {
      code: 'invalid_field',
      param,
      says: ['must be an https URL;'],
    })
  })
  test.each([null, 'https://images.example/tram.png', 5, []])('rejects %j as an image’s source', async (source) => {
    const expected = { code: 'invalid_field', param: `${BLOCK}.source`, says: [`${BLOCK}.source`, 'must be an object'] }
    await endpoint.expectRefused(bodyWithImage(source), expected)
  })
})

describe('names of tools', () => {
  test.each(['line\nbreak', 'tab\t', '\u0001', '\u0085'])(
    'rejects %j, which every vendor would refuse',
    async (name) => {
      const body = endpoint.bodyWith({ tools: [{ name, input_schema: { type: 'object' } }] })
      await endpoint.expectRefused(body, { code: 'invalid_field', param: 'tools', says: ['tools', 'control'] })
    },
  )
  test('accepts the names that a vendor of the model takes', async () => {
    const names = ['get_weather', 'get-weather', 'find.weather', '7zip', 'x'.repeat(128)]
    for (const name of names)
      await endpoint.expectChallenged(endpoint.bodyWith({ tools: [{ name, input_schema: { type: 'object' } }] }))
  })
  test.each(['my tool', 'météo', 'a/b', 'x'.repeat(129)])(
    'rejects %j before the price: no vendor of the model takes it',
    async (name) => {
      const body = endpoint.bodyWith({ tools: [{ name, input_schema: { type: 'object' } }] })
      await endpoint.expectRefused(body, {
        code: 'request_unsupported',
        param: 'tools',
        says: ['tools: textmodel-2.5-pro does not take a tool name', name.slice(0, 40), 'Nothing was charged'],
      })
    },
  )
})

describe('extra properties', () => {
  testExtraProperties(endpoint)
})

describe('limits of the models', () => {
  testModelLimits(endpoint)
})

describeJsonBody(endpoint, {
  same: {
    'stream spelled out': { stream: false },
    'no tools': { tools: [] },
    'content as blocks': { messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }] },
  },
  other: {
    model: { model: 'textmodel-2.5-flash' },
    message: { messages: [{ role: 'user', content: 'hullo' }] },
    role: { messages: [{ role: 'assistant', content: 'hello' }] },
    max_tokens: { max_tokens: 511 },
    system: { system: 'Be brief.' },
    temperature: { temperature: 0.5 },
    tool: { tools: [{ name: 'f', input_schema: { type: 'object' } }] },
  },
})

test.each([
  ['2023-06-01', 'x-api-key'],
  ['1999-01-01', 'authorization'],
])('ignores anthropic-version %s and a dummy %s [spec A1a]', async (version, keyHeader) => {
  await endpoint.expectChallenged(endpoint.valid, { 'anthropic-version': version, [keyHeader]: 'Bearer dummy' })
})

test('unknown routes below /v1/messages answer with Anthropic’s error types', async () => {
  const answer = await fetch(`${endpoint.sandbox().info.baseUrl}/v1/messages/count_tokens`, { method: 'POST' })
  const { error } = await expectErrorBody(answer, { status: 404, code: 'not_found', param: null })
  expect(error.type).toBe('not_found_error')
})

endpoint.testNothingHappened(150)
