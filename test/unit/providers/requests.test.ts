import { describe, expect, it, test } from 'vitest'
import { z } from 'zod'
import type { Effort } from '#shared/operations/text/effort.ts'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { createFailover } from '../../../workers/job/failover.ts'
import {
  emptyOutput,
  gone,
  misconfigured,
  rejected,
  rejectedByDeployment,
  unavailable,
  unknownOutcome,
  unserviceable,
} from '../../../workers/providers/failures.ts'
import type { HttpRequest } from '../../../workers/providers/http.ts'
import { leastInputTokens, leastOutputTokens, leastTokens } from '../../../workers/providers/least-tokens.ts'
import { budgetWithin, effortWithin } from '../../../workers/providers/output-limit.ts'
import type { ProviderFailure } from '../../../workers/providers/provider.ts'
import { adapters } from '../../../workers/providers/registry.ts'
import { errorToken } from '../../../workers/providers/wire-fields.ts'

const FAILURES = {
  gone: gone('x'),
  down: unavailable('x'),
  unsupported: unserviceable('x'),
  misconfigured: misconfigured('x'),
  'rejected here': rejectedByDeployment('x'),
  'rejected anywhere': rejected('x'),
  empty: emptyOutput('x'),
  unknown: unknownOutcome('x'),
} as const satisfies Record<string, ProviderFailure>
type Name = keyof typeof FAILURES
/** Runs the failures of a model's deployments in order. Returns how many were called, and the final code. */
function run(deployments: number, names: readonly Name[]): [calls: number, code: string] {
  const failover = createFailover(deployments)
  for (const [index, name] of names.entries()) {
    const failure = FAILURES[name]
    if (!failover.mayContinueAfter(failure)) return [index + 1, failover.codeAfter(failure)]
  }
  return [names.length, failover.codeAfter(FAILURES[names.at(-1) ?? 'unknown'])]
}
const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'When does the tram leave?' }] }],
  max_output_tokens: 600,
}
type Vendor = 'gemini' | 'anthropic' | 'openai-compatible'
/** The answers of each vendor that its output limit ended. */
const ANSWERS: Record<Vendor, (text: string) => object> = {
  gemini: (text) => ({
    candidates: [{ content: { parts: text === '' ? [] : [{ text }] }, finishReason: 'MAX_TOKENS' }],
    usageMetadata: { promptTokenCount: 6, candidatesTokenCount: 10, thoughtsTokenCount: 490 },
    responseId: 'id-1',
  }),
  anthropic: (text) => ({
    id: 'id-1',
    content: text === '' ? [] : [{ type: 'text', text }],
    stop_reason: 'max_tokens',
    usage: { input_tokens: 6, output_tokens: 500 },
  }),
  'openai-compatible': (text) => ({
    id: 'id-1',
    choices: [{ index: 0, finish_reason: 'length', message: { content: text } }],
    usage: { prompt_tokens: 6, completion_tokens: 500 },
  }),
}
const MODELS: Record<Vendor, string> = {
  gemini: 'gemini-2.5-flash',
  anthropic: 'claude-sonnet-4-5',
  'openai-compatible': 'simulated-chat',
}
/** Calls a deployment with the limit of 500 tokens. Returns the outcome, and the body that its vendor received. */
async function call(vendor: Vendor, maximum: number, text: string) {
  let body = ''
  const http = (request: HttpRequest) => {
    body = typeof request.body === 'string' ? request.body : ''
    const bytes = new TextEncoder().encode(JSON.stringify(ANSWERS[vendor](text)))
    return Promise.resolve({ outcome: 'response', status: 200, headers: new Headers(), bytes } as const)
  }
  const connection = { baseUrl: 'http://vendor.test', apiKey: 'key', upstreamModel: MODELS[vendor], http }
  const { text: provider } = adapters[vendor].ports(connection, { maximum_output_tokens: 500 })
  const outcome = await provider?.generateText({ ...REQUEST, max_output_tokens: maximum }, { timeoutMs: 1000 })
  return { outcome, body: JSON.parse(body) as Record<string, unknown> }
}
const wire = z.object({ type: errorToken })
const read = (body: object) => wire.parse(body).type

describe('failover between deployments', () => {
  test.each<[deployments: number, failures: readonly Name[], calls: number, code: string]>([
    [1, ['down'], 1, 'provider_unavailable'],
    [2, ['gone', 'down'], 2, 'provider_unavailable'],
    [1, ['unsupported'], 1, 'request_unsupported'],
    [1, ['misconfigured'], 1, 'provider_unavailable'],
    [2, ['unsupported', 'misconfigured'], 2, 'provider_unavailable'],
    [2, ['misconfigured', 'unsupported'], 2, 'provider_unavailable'],
    [2, ['unsupported', 'down'], 2, 'provider_unavailable'],
    // Another deployment supports the request perhaps, but may not be called at the moment.
    [2, ['unsupported'], 1, 'provider_unavailable'],
    [2, ['rejected here'], 1, 'provider_unavailable'],
    [1, ['rejected here'], 1, 'provider_rejected'],
    [2, ['rejected here', 'rejected here'], 2, 'provider_rejected'],
    [3, ['rejected here', 'rejected here', 'down'], 2, 'provider_rejected'],
    [3, ['rejected here', 'unsupported', 'rejected here'], 3, 'provider_rejected'],
    [2, ['rejected here', 'unsupported'], 2, 'provider_rejected'],
    [2, ['rejected here', 'down'], 2, 'provider_unavailable'],
    [2, ['rejected here', 'rejected anywhere'], 2, 'provider_rejected'],
    [2, ['rejected anywhere', 'down'], 1, 'provider_rejected'],
    [3, ['rejected here', 'empty', 'down'], 2, 'provider_empty_output'],
    [3, ['unsupported', 'unknown', 'down'], 2, 'provider_outcome_unknown'],
  ])('of %i deployments, %j calls %i and ends with %s', (deployments, failures, calls, code) => {
    expect(run(deployments, failures)).toEqual([calls, code])
  })
})

describe('the effort of a request', () => {
  test.each<[limit: number, lowest: Effort, highest: Effort | undefined, effort: Effort | undefined]>([
    [1, 'none', 'high', 'none'],
    [512, 'low', undefined, 'low'],
    [512, 'minimal', 'high', 'minimal'],
    [4095, 'low', 'max', 'low'],
    [4096, 'none', 'high', 'low'],
    [16_383, 'minimal', 'high', 'low'],
    [16_384, 'minimal', 'high', 'medium'],
    [32_767, 'low', undefined, 'medium'],
    [32_768, 'low', 'xhigh', 'xhigh'],
    [32_768, 'low', undefined, undefined],
    [65_536, 'none', 'none', 'none'],
    [20_000, 'low', 'minimal', 'minimal'],
    [512, 'medium', 'high', 'medium'],
  ])('with an output limit of %i, from %s to %s, is %s', (limit, lowest, highest, effort) => {
    expect(effortWithin({ max_output_tokens: limit }, { lowest, highest })).toBe(effort)
  })

  test('never falls while the output limit rises', () => {
    const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
    const ranks = Array.from({ length: 65 }, (_, step) =>
      efforts.indexOf(
        effortWithin({ max_output_tokens: 1 + step * 1024 }, { lowest: 'minimal', highest: 'max' }) ?? '',
      ),
    )
    expect(ranks).toEqual(ranks.toSorted((left, right) => left - right))
  })

  test.each<[asked: Effort, limit: number, lowest: Effort, highest: Effort | undefined, effort: Effort]>([
    ['high', 512, 'low', 'high', 'high'],
    ['max', 512, 'low', 'medium', 'medium'],
    ['none', 65_536, 'low', 'high', 'low'],
    ['none', 65_536, 'none', 'high', 'none'],
    ['low', 65_536, 'minimal', undefined, 'low'],
    ['xhigh', 65_536, 'minimal', undefined, 'high'],
    ['max', 65_536, 'low', 'max', 'max'],
  ])(
    'asked for as %s with an output limit of %i, from %s to %s, is %s',
    (reasoning_effort, limit, lowest, highest, effort) => {
      expect(effortWithin({ max_output_tokens: limit, reasoning_effort }, { lowest, highest })).toBe(effort)
    },
  )
})

describe('thinking budgets', () => {
  test.each([
    [512, 1024, { minimumTokens: 1, canBeOff: true }, 128],
    [512, 1024, { minimumTokens: 128, canBeOff: false }, 128],
    [100, 1024, { minimumTokens: 128, canBeOff: false }, 128],
    [512, 1024, { minimumTokens: 512, canBeOff: true }, 0],
    [2048, 1024, { minimumTokens: 512, canBeOff: true }, 512],
    [3, 1024, { minimumTokens: 1, canBeOff: true }, 0],
    [65_536, 0, { minimumTokens: 1, canBeOff: true }, 0],
    [65_536, 1024, { minimumTokens: 1, canBeOff: true }, 1024],
    [65_536, Number.POSITIVE_INFINITY, { minimumTokens: 1, canBeOff: true }, 16_384],
  ])(
    'leaves three quarters of a limit of %i to text: a budget of %d in the range %o becomes %i',
    (limit, budget, range, sent) => {
      expect(budgetWithin({ max_output_tokens: limit }, budget, range)).toBe(sent)
    },
  )

  test.each<[asked: Effort, limit: number, budget: number, sent: number]>([
    ['high', 65_536, Number.POSITIVE_INFINITY, 24_576],
    ['high', 65_536, 1024, 1024],
    ['medium', 512, Number.POSITIVE_INFINITY, 512],
    ['low', 65_536, Number.POSITIVE_INFINITY, 1024],
    ['none', 65_536, Number.POSITIVE_INFINITY, 0],
  ])('of the effort %s, with an output limit of %i and at most %d, is %i', (reasoning_effort, limit, budget, sent) => {
    const range = { minimumTokens: 1, canBeOff: true }
    expect(budgetWithin({ max_output_tokens: limit, reasoning_effort }, budget, range)).toBe(sent)
  })
})

describe.each<[Vendor, (limit: number) => object]>([
  [
    'gemini',
    (limit) => ({ generationConfig: { maxOutputTokens: limit, thinkingConfig: { thinkingBudget: limit / 4 } } }),
  ],
  ['anthropic', (limit) => ({ max_tokens: limit })],
  ['openai-compatible', (limit) => ({ max_completion_tokens: limit })],
])('an output limit of the deployment, %s:', (vendor, sent) => {
  test('a higher limit of a request is reduced to it, a lower one is sent as it is', async () => {
    expect((await call(vendor, 501, 'At nine')).body).toMatchObject(sent(500))
    expect((await call(vendor, 500, 'At nine')).body).toMatchObject(sent(500))
    expect((await call(vendor, 400, 'At nine')).body).toMatchObject(sent(400))
  })

  test('an answer that it cut is delivered', async () => {
    const { outcome } = await call(vendor, 501, 'At nine')
    expect(outcome).toMatchObject({ outcome: 'generated', output: { text: 'At nine', finish_reason: 'length' } })
  })

  test.each(['', ' '])(
    'an answer that it left empty (%j) is not charged, unless the payer chose that limit',
    async (text) => {
      expect((await call(vendor, 501, text)).outcome).toEqual({
        outcome: 'failed',
        certainty: 'empty',
        code: 'provider_empty_output',
        reason: 'HTTP 200 without output within the deployment’s limit',
        vendorRequestId: 'id-1',
        usage: expect.objectContaining({ output_tokens: 500 }),
      })
      expect((await call(vendor, 500, text)).outcome).toMatchObject({
        outcome: 'generated',
        output: { text, finish_reason: 'length', usage: { output_tokens: 500 } },
      })
    },
  )
})

describe('names in vendors’ errors', () => {
  it.each(['rate_limit_error', 'INVALID_ARGUMENT', 'BadRequestError', 'OTHER', 'a'])('keeps the name %s', (name) => {
    expect(read({ type: name })).toBe(name)
  })

  it.each([
    'my PIN is 4711',
    'jane.doe@example.com',
    '4111111111111111',
    'sk-CANARY',
    'AIza_CANARY_0f2c',
    'a__b',
    '_a',
    'a_',
    'a\nb',
    'é',
    '',
    'a'.repeat(65),
    'a_'.repeat(32).concat('b'),
    42,
    null,
    { text: 'CANARY' },
  ])('drops %j, which may quote the caller, and accepts the rest of the error', (name) => {
    expect(read({ type: name })).toBeUndefined()
  })

  it('accepts an error without a name', () => {
    expect(read({})).toBeUndefined()
  })
})

describe('the tokens that a text has at least', () => {
  it.each([
    ['', 0],
    [' \n', 0],
    ['The tram leaves at nine.', 5],
    ['  one\n\ttwo  ', 2],
    // No space and no repetition makes more of them, as some tokenizers join both.
    ['='.repeat(500), 1],
    ['路面電車は九時に出る', 3],
    ['Tram 路面電車 ab', 3],
    ['รถรางออกเก้าโมง', 4],
    ['🚋🚋🚋', 1],
  ])('of %j are %i', (text, count) => {
    expect(leastTokens(text)).toBe(count)
  })

  it('of a request are those of its instructions, messages and tool results; images count nothing', () => {
    const source = { kind: 'inline', media_type: 'image/png', base64: 'AAAA' } as const
    const messages = [
      {
        role: 'user' as const,
        parts: [
          { type: 'text' as const, text: 'one two' },
          { type: 'image' as const, source },
        ],
      },
      { role: 'user' as const, parts: [{ type: 'tool_result' as const, tool_call_id: 'a', text: 'three' }] },
    ]
    expect(leastInputTokens({ system: 'Be brief.', messages })).toBe(5)
    expect(leastInputTokens({ messages })).toBe(3)
  })

  it('of an input without spaces are at least one for each 16 bytes', () => {
    const messages = [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'QUJD'.repeat(75_000) }] }]
    expect(leastInputTokens({ messages })).toBe(18_750)
  })

  it('of an input of spaces are none, since a token may be any number of them', () => {
    expect(leastInputTokens({ messages: [], system: ' '.repeat(100_000) })).toBe(0)
  })

  it('of an answer are those of its text and of its calls with their arguments', () => {
    const calls = [{ name: 'get_weather', arguments_json: '{"city": "Paris"}' }]
    expect(leastOutputTokens({ text: 'Let me look.', calls })).toBe(6)
  })

  it.each([
    ['each event of output without spaces', '3141592653589793'.repeat(100), 400, 400],
    ['no more events than four bytes each allow, as a gateway may divide tokens', 'abcd'.repeat(50), 200, 50],
    ['words where they are more, as an event may have several', 'one two three four', 2, 4],
  ])('count %s', (_, text, pieces, count) => {
    expect(leastOutputTokens({ text, calls: [], pieces })).toBe(count)
  })
})
