import { describe, expect, it } from 'vitest'
import type { TextRequest } from '#shared/operations/text/text-request.ts'
import { createAnthropicText } from '../../../workers/providers/anthropic/text.ts'
import type { StreamProgress } from '../../../workers/providers/event-stream.ts'
import { createGeminiText } from '../../../workers/providers/gemini/text.ts'
import type { SendHttp } from '../../../workers/providers/http.ts'
import { createOpenAiCompatibleText } from '../../../workers/providers/openai-compatible/text.ts'

const REQUEST: TextRequest = {
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
  max_output_tokens: 512,
}
const CONNECTION = { baseUrl: 'http://vendor.test', apiKey: 'key', upstreamModel: 'gemini-3.6-flash' }

/** Answers with a stream of these events, which then ends. */
function streaming(events: readonly object[]): SendHttp {
  return async (_, { onEvent }) => {
    let streamed: StreamProgress = 'waiting'
    for (const event of events) {
      streamed = onEvent?.(JSON.stringify(event)) ?? 'unusable'
      if (streamed === 'unusable' || streamed === 'ended') break
    }
    return { outcome: 'response', status: 200, headers: new Headers(), bytes: new Uint8Array(), streamed }
  }
}

const ERROR = { error: { message: 'x', code: 500 } }
/** Of each vendor: output, the event that ends it, both with counts where it has them, and an error. */
const VENDORS = [
  {
    vendor: 'OpenAI',
    create: createOpenAiCompatibleText,
    output: [
      {
        choices: [{ index: 0, delta: { content: 'All of it.' }, finish_reason: null }],
        usage: { prompt_tokens: 9000, completion_tokens: 3 },
      },
    ],
    end: [
      {
        choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
        usage: { prompt_tokens: 9000, completion_tokens: 4 },
      },
    ],
    error: ERROR,
  },
  {
    vendor: 'Anthropic',
    create: createAnthropicText,
    output: [
      { type: 'message_start', message: { id: 'm', usage: { input_tokens: 9000, output_tokens: 1 } } },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'All of it.' } },
    ],
    end: [{ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } }],
    error: { type: 'error', error: { type: 'overloaded_error', message: 'x' } },
  },
  {
    vendor: 'Gemini',
    create: createGeminiText,
    output: [
      {
        candidates: [{ content: { parts: [{ text: 'All of it.' }] } }],
        usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 3 },
      },
    ],
    end: [
      {
        candidates: [{ finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 9000, candidatesTokenCount: 4 },
      },
    ],
    error: ERROR,
  },
] as const

describe.each(VENDORS)('a stream of $vendor', ({ create, output, end, error }) => {
  const generate = (events: readonly object[]) =>
    create({ ...CONNECTION, http: streaming(events) }).generateText(REQUEST, { timeoutMs: 1000 })

  it('is the whole answer when an error follows its finish reason', async () => {
    expect(await generate([...output, ...end, error])).toMatchObject({
      outcome: 'generated',
      output: { text: 'All of it.', usage: { input_tokens: 9000, output_tokens: 4 } },
    })
  })

  it.each([[null], [''], [false], [{}], [[]]])(
    'is read where its events have an error of %j, which says nothing',
    async (empty) => {
      const events = [...output, ...end].map((event) => ({ ...event, error: empty }))
      expect(await generate(events)).toMatchObject({
        outcome: 'generated',
        output: { text: 'All of it.', usage: { input_tokens: 9000, output_tokens: 4 } },
      })
    },
  )

  it.each([
    ['an error event', [error]],
    ['its end', []],
  ])('that %s cuts has the usage that was reported', async (_, rest) => {
    expect(await generate([...output, ...rest])).toMatchObject({
      certainty: 'ambiguous',
      usage: { input_tokens: 9000 },
    })
  })
})

it('a byte of an answer that is not UTF-8 costs one character', async () => {
  const choice = { index: 0, message: { content: 'All of @it.' }, finish_reason: 'stop' }
  const [before = '', behind = ''] = JSON.stringify({ choices: [choice] }).split('@')
  const bytes = Buffer.concat([Buffer.from(before), Buffer.from([0xc3]), Buffer.from(behind)])
  const http: SendHttp = async () => ({ outcome: 'response', status: 200, headers: new Headers(), bytes })
  const provider = createOpenAiCompatibleText({ ...CONNECTION, http })
  expect(await provider.generateText(REQUEST, { timeoutMs: 100_000 })).toMatchObject({
    output: { text: 'All of \u{fffd}it.' },
  })
})
