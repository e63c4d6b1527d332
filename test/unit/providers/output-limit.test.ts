import { describe, expect, test } from 'vitest'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import type { HttpRequest } from '../../../workers/providers/http.ts'
import { adapters } from '../../../workers/providers/registry.ts'

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
      })
      expect((await call(vendor, 500, text)).outcome).toMatchObject({
        outcome: 'generated',
        output: { text, finish_reason: 'length', usage: { output_tokens: 500 } },
      })
    },
  )
})
