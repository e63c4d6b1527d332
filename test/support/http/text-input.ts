import { expect, test } from 'vitest'
import { atomicOf, type FieldRules, type JsonEndpoint, rejectedWith } from './json-endpoint.ts'

export const TEXT_MODELS = [
  'textmodel-3.6-flash',
  'textmodel-3.5-flash-lite',
  'textmodel-3.5-flash',
  'textmodel-3.1-flash-lite',
  'textmodel-2.5-flash',
  'textmodel-2.5-pro',
  'textmodel-2.5-flash-lite',
] as const

export const TEXT_BOUNDS = ['0.002', '0.766952'] as const

/** One transparent pixel in canonical Base64. */
export const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

const message = (changes: Record<string, unknown>) => [{ role: 'user', content: 'a', ...changes }]

/** Returns the rules that chat completions and messages share; `max_tokens` is required in messages only. */
export function textFieldRules(maxTokensRequired: boolean): FieldRules[] {
  const notContent = [5, true, { type: 'text', text: 'a' }].map(
    (content) => [message({ content }), 'must be a string or an array', 'messages[0].content'] as const,
  )
  return [
    {
      name: 'model',
      title: 'model [spec E5, E21]',
      required: true,
      accepted: TEXT_MODELS,
      refused: [
        'textmodel-3.1-flash-lite-image',
        'speechvendor/flash-v2.5',
        'TEXTMODEL-2.5-PRO',
        'textmodel-2.5-pro ',
        'gpt-4o',
        '',
        '\ud800',
        5,
        true,
        null,
        ['textmodel-2.5-pro'],
        {},
      ].map((value) => [value, '"textmodel-2.5-flash"'] as const),
    },
    {
      name: 'max_tokens',
      title: 'max_tokens [spec E7, E23, B1]',
      required: maxTokensRequired,
      accepted: [1, 2, 512, 32_768, 65_535, 65_536],
      refused: [
        ...rejectedWith('must be at least 1', 0, -1, -65_536),
        ...rejectedWith('must be at most 65536', 65_537, 2 ** 53, 1e300),
        ...rejectedWith('must be an integer', 1.5, 65_535.5),
        ...rejectedWith('number', '16', '', true, null, [16], {}),
      ],
    },
    {
      name: 'stream',
      title: 'stream [spec S10a, E8, E24, B3]',
      accepted: [false],
      refused: rejectedWith('must be false', true, null, 0, 1, 'false', '', [], {}),
    },
    {
      name: 'tools',
      title: 'tools [spec E9, E25]',
      accepted: [[], [{}], [null, 5, 'search', { type: 'web_search' }, [[]]]],
      refused: rejectedWith('must be an array', null, {}, 'search', 5, true),
    },
    {
      name: 'messages',
      title: 'messages [spec E6, E22, B2]',
      required: true,
      accepted: [
        message({}),
        [...message({}), ...message({ content: '' }), ...message({ content: [] })],
        message({ content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] }),
        message({ content: '😀 \u202e\u0001\n' }),
        message({ name: 'rider', anything: { else: [1] } }),
        [...message({}), ...message({ role: 'assistant' }), ...message({})],
      ],
      refused: [
        ...rejectedWith('must be an array', null, 'hello', 5, true, { role: 'user', content: 'a' }),
        [[], 'at least 1 item'],
        [[null], 'must be an object', 'messages[0]'],
        [['hello'], 'must be an object', 'messages[0]'],
        [[...message({}), 5], 'must be an object', 'messages[1]'],
        [message({ role: 5 }), 'must be a string', 'messages[0].role'],
        [message({ role: null }), 'must be a string', 'messages[0].role'],
        ...notContent,
        ...rejectedWith('must say something', message({ content: '' }), message({ content: [] })),
        [message({ content: null }), 'must be a string or an array', 'messages[0].content'],
        [message({ content: 'a\ud800' }), 'surrogate', 'messages[0].content'],
        [message({ content: '\udc00\ud83d' }), 'surrogate', 'messages[0].content'],
        [message({ content: ['hello'] }), 'must be an object', 'messages[0].content[0]'],
        [message({ content: [null] }), 'must be an object', 'messages[0].content[0]'],
        [message({ content: [{ type: 'input_audio' }] }), '"text"', 'messages[0].content[0].type'],
        [message({ content: [{ type: 'video_url' }] }), '"text"', 'messages[0].content[0].type'],
        [message({ content: [{ type: 'Text', text: 'a' }] }), '"text"', 'messages[0].content[0].type'],
        [message({ content: [{ type: null, text: 'a' }] }), '"text"', 'messages[0].content[0].type'],
        [message({ content: [{ type: 'text', text: 5 }] }), 'must be a string', 'messages[0].content[0].text'],
        [message({ content: [{ type: 'text', text: null }] }), 'must be a string', 'messages[0].content[0].text'],
        [message({ content: [{ type: 'text', text: '\ud800' }] }), 'surrogate', 'messages[0].content[0].text'],
      ],
    },
  ]
}

/** Registers the tests of messages that lack a member. */
export function testMissingMembers(endpoint: JsonEndpoint, cases: readonly (readonly [unknown, string])[]): void {
  const all: readonly (readonly [unknown, string])[] = [
    [[{ content: 'a' }], 'messages[0].role'],
    [[{ role: 'user' }], 'messages[0].content'],
    [[{ role: 'user', content: [{}] }], 'messages[0].content[0].type'],
    [[{ role: 'user', content: [{ text: 'a' }] }], 'messages[0].content[0].type'],
    [[{ role: 'user', content: [{ type: 'text' }] }], 'messages[0].content[0].text'],
    ...cases,
  ]
  test.each(all)('rejects messages %j, which lack a member', async (messages, param) => {
    const expected = { code: 'missing_field', param, says: [param, 'required'] }
    await endpoint.expectRefused(endpoint.bodyWith({ messages }), expected)
  })
}

/** Registers the tests of open objects: an unknown property is accepted anywhere, with any value; a known one has its rule. */
export function testExtraProperties(endpoint: JsonEndpoint): void {
  test.each([
    ['temperature', 0.3],
    ['top_p', null],
    ['verbose', true],
    ['metadata', { user_id: 'a' }],
    ['tool_choice', null],
    ['best_of', 2],
    ['', 1],
    ['constructor', {}],
    ['toString', 1],
  ])('accepts the extra property %j: %j [spec E15, E30]', async (name, value) => {
    await endpoint.expectChallenged(endpoint.bodyWith({ [name]: value }))
  })
  test.each([
    ['temperature', 99, 'must be at most 2'],
    ['temperature', 'hot', 'must be a number'],
    ['top_p', 7, 'must be at most 1'],
    ['seed', 1.5, 'must be an integer'],
    ['tool_choice', { type: 'nothing known' }, 'must be'],
    ['service_tier', 'flex', 'one'],
  ])('rejects the known option %j: %j, with the rule', async (name, value, says) => {
    const expected = { code: 'invalid_field', param: name, says: [name, says] }
    await endpoint.expectRefused(endpoint.bodyWith({ [name]: value }), expected)
  })
  test.each([
    ['user', 'a\ud800', 'user'],
    ['metadata', { a: ['\udfff'] }, 'metadata'],
  ])('rejects the extra property %j that is not valid Unicode', async (name, value, place) => {
    const message = await endpoint.expectRefused(endpoint.bodyWith({ [name]: value }), {
      code: 'invalid_field',
      param: name === 'metadata' ? 'metadata.a[0]' : name,
      says: ['surrogate'],
    })
    expect(message).toContain(place)
  })
}

/** Registers the tests at each model's published limit and at the published maximum price, on both sides. */
export function testModelLimits(endpoint: JsonEndpoint, tokensAlwaysFit: readonly string[] = TEXT_MODELS): void {
  test.each(tokensAlwaysFit)('accepts max_tokens of %s up to its published limit only [spec E14]', async (model) => {
    const answer = await fetch(`${endpoint.sandbox().info.baseUrl}/v1/models`)
    const { data } = (await answer.json()) as { data: { id: string; max_output_tokens: number }[] }
    const limit = data.find(({ id }) => id === model)?.max_output_tokens ?? 0
    expect(limit).toBeGreaterThan(0)
    expect(limit).toBeLessThanOrEqual(65_536)
    await endpoint.expectChallenged(endpoint.bodyWith({ model, max_tokens: limit }))
    await endpoint.expectRefused(endpoint.bodyWith({ model, max_tokens: limit + 1 }), {
      code: 'invalid_field',
      param: 'max_tokens',
      says: ['max_tokens', `at most ${limit}`],
    })
  })

  test('rejects a request whose maximum price exceeds the published bound, stating the excess [spec B20]', async () => {
    const withInput = (characters: number) =>
      endpoint.bodyWith({
        model: 'textmodel-2.5-pro',
        max_tokens: 65_536,
        messages: [{ role: 'user', content: 'x'.repeat(characters) }],
      })
    const bound = atomicOf(TEXT_BOUNDS[1])
    const fewer = await endpoint.expectChallenged(withInput(80_000))
    const more = await endpoint.expectChallenged(withInput(84_000))
    // The price is linear in the input, so two samples determine where it reaches the bound.
    const perCharacter = Number(more - fewer) / 4000
    const last = 84_000 + Math.floor(Number(bound - more) / perCharacter)
    expect(await endpoint.expectChallenged(withInput(last))).toBeGreaterThan(bound - 3n)
    for (const beyond of [3, 40_000]) {
      const message = await endpoint.expectRefused(withInput(last + beyond), {
        code: 'maximum_price_exceeded',
        param: 'max_tokens',
        says: ['0.766952', 'max_tokens'],
      })
      const [, price = '', excess = ''] = /is ([\d.]+) USD, which is ([\d.]+) USD above/.exec(message) ?? []
      expect(atomicOf(price) - bound).toBe(atomicOf(excess))
      expect(atomicOf(excess)).toBeGreaterThan(0n)
      expect(Math.abs(Number(atomicOf(excess)) - beyond * perCharacter)).toBeLessThanOrEqual(3)
    }
  })

  test('blames the messages when no max_tokens would keep the price within the bound', async () => {
    const messages = [{ role: 'user', content: 'x'.repeat(700_000) }]
    await endpoint.expectRefused(endpoint.bodyWith({ model: 'textmodel-2.5-pro', max_tokens: 1, messages }), {
      code: 'maximum_price_exceeded',
      param: 'messages',
      says: ['0.766952'],
    })
  })
  test('rejects an input beyond the context window, stating the excess', async () => {
    const messages = [{ role: 'user', content: 'x'.repeat(1_100_000) }]
    await endpoint.expectRefused(endpoint.bodyWith({ model: 'textmodel-2.5-flash-lite', max_tokens: 1, messages }), {
      code: 'context_length_exceeded',
      param: 'messages',
      says: ['1048576', 'more than'],
    })
  })
}
