import { describe, expect, test } from 'vitest'
import { expectErrorBody } from '../support/http/expect-refusal.ts'
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
  path: '/v1/messages',
  family: 'anthropic',
  bounds: TEXT_BOUNDS,
  valid: { model: 'textmodel-2.5-pro', max_tokens: 512, messages: [{ role: 'user', content: 'hello' }] },
})

describeFields(endpoint, [
  ...textFieldRules(true),
  {
    name: 'system',
    accepted: ['', 'Be brief.', [], [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]],
    refused: [
      ...allSay('must be a string or an array', null, 5, true, { type: 'text', text: 'a' }),
      ['\ud800', 'surrogate'],
      [[{ type: 'image' }], '"text"', 'system[0].type'],
      [[{ type: 'tool_use', id: 'a', name: 'f' }], '"text"', 'system[0].type'],
      [['Be brief.'], 'must be an object', 'system[0]'],
      [[{ type: 'text', text: 5 }], 'must be a string', 'system[0].text'],
    ],
  },
])

const ask = (content: unknown, role = 'user') => endpoint.bodyWith({ messages: [{ role, content }] })
const imageOf = (source: unknown) => ask([{ type: 'image', source }])
const base64 = (changes: Record<string, unknown>) => ({
  type: 'base64',
  media_type: 'image/png',
  data: PNG,
  ...changes,
})
const at = 'messages[0].content[0]'

describe('messages', () => {
  testMissingMembers(endpoint, [
    [[{ role: 'user', content: [{ type: 'image' }] }], `${at}.source`],
    [[{ role: 'user', content: [{ type: 'tool_use', name: 'f' }] }], `${at}.id`],
    [[{ role: 'user', content: [{ type: 'tool_use', id: 'a' }] }], `${at}.name`],
    [[{ role: 'user', content: [{ type: 'tool_result', content: 'a' }] }], `${at}.tool_use_id`],
    [[{ role: 'user', content: [{ type: 'image', source: {} }] }], `${at}.source.type`],
    [[{ role: 'user', content: [{ type: 'image', source: { type: 'url' } }] }], `${at}.source.url`],
  ])
  test.each(['user', 'assistant', 'system', 'critic', ''])('the role may be any string: %j', async (role) => {
    await endpoint.expectChallenged(ask('a', role))
  })

  const use = { type: 'tool_use', id: 'toolu_1', name: 'look_up', input: { stop: 'Depot' } }
  test.each([
    ['tool_use', use],
    ['tool_use without input', { ...use, input: undefined }],
    ['tool_use with an empty input', { ...use, input: {} }],
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
  ])('a block may be a %s', async (_, block) => {
    await endpoint.expectChallenged(ask([block, { type: 'text', text: 'a' }], 'assistant'))
  })
  test.each([
    ['input of text', { ...use, input: 'stop' }, `${at}.input`, 'must be an object'],
    ['input of a list', { ...use, input: [] }, `${at}.input`, 'must be an object'],
    ['null input', { ...use, input: null }, `${at}.input`, 'must be an object'],
    ['an id that is a number', { ...use, id: 1 }, `${at}.id`, 'must be a string'],
    ['a null name', { ...use, name: null }, `${at}.name`, 'must be a string'],
    [
      'a result of a number',
      { type: 'tool_result', tool_use_id: 'a', content: 5 },
      `${at}.content`,
      'string or an array',
    ],
    [
      'a result of tool_use',
      { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'tool_use' }] },
      `${at}.content[0].type`,
      '"text"',
    ],
    ['a result for no id', { type: 'tool_result', tool_use_id: null, content: 'a' }, `${at}.tool_use_id`, 'string'],
  ])('a block must not have %s', async (_, block, param, says) => {
    await endpoint.expectRefused(ask([block]), { code: 'invalid_field', param, says: [param, says] })
  })
  test.each(['image_url', 'refusal', 'document', 'server_tool_use', '', 5, null])(
    'a block of type %j is refused with those that there are',
    async (type) => {
      const says = [`${at}.type`, '"text", "image", "tool_use", "tool_result"']
      await endpoint.expectRefused(ask([{ type }]), { code: 'invalid_field', param: `${at}.type`, says })
    },
  )
})

describe('images', () => {
  test.each([
    ['base64', base64({})],
    ['base64 under another image’s type', base64({ media_type: 'image/webp' })],
    ['an https URL', { type: 'url', url: 'https://images.example/tram.png' }],
  ])('may be %s', async (_, source) => {
    await endpoint.expectChallenged(imageOf(source))
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
  ])('must not be %j', async (source, member, says) => {
    const param = `${at}.source.${member}`
    await endpoint.expectRefused(imageOf(source), { code: 'invalid_field', param, says: [param, says] })
  })
  test('at an URL need not be inline: the refusal of another one says only that', async () => {
    const param = `${at}.source.url`
    const source = { type: 'url', url: `data:image/png;base64,${PNG}` }
    await endpoint.expectRefused(imageOf(source), { code: 'invalid_field', param, says: ['must be an https URL;'] })
  })
  test.each([null, 'https://images.example/tram.png', 5, []])('source must not be %j', async (source) => {
    const expected = { code: 'invalid_field', param: `${at}.source`, says: [`${at}.source`, 'must be an object'] }
    await endpoint.expectRefused(imageOf(source), expected)
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
])('anthropic-version %s and a dummy %s are ignored', async (version, keyHeader) => {
  await endpoint.expectChallenged(endpoint.valid, { 'anthropic-version': version, [keyHeader]: 'Bearer dummy' })
})

test('routes below it that there are not answer in the family’s names', async () => {
  const answer = await fetch(`${endpoint.sandbox().info.baseUrl}/v1/messages/count_tokens`, { method: 'POST' })
  const { error } = await expectErrorBody(answer, { status: 404, code: 'not_found', param: null })
  expect(error.type).toBe('not_found_error')
})

endpoint.testNothingHappened(150)
