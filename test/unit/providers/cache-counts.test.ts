import { expect, test } from 'vitest'
import { messageWire } from '../../../workers/providers/anthropic/wire.ts'
import { answerWire } from '../../../workers/providers/gemini/wire.ts'
import { completionWire } from '../../../workers/providers/openai-compatible/wire.ts'
import { answerUsage } from '../../../workers/providers/text-answer.ts'

const choices = [{ finish_reason: 'stop', message: { content: 'Hi' } }]

test.each([
  [-1, undefined],
  [1.5, 1],
  ['3', 3],
  ['3.5', undefined],
  [[], undefined],
  [null, undefined],
])('a count of cached tokens that is %j is read as %j, and the answer is used', (count, read) => {
  const details = { prompt_tokens_details: { cached_tokens: count } }
  const usage = { prompt_tokens: 10, completion_tokens: 2 }
  const completion = completionWire.parse({ choices, usage: { ...usage, ...details } })
  expect(completion.usage?.prompt_tokens_details?.cached_tokens).toBe(read)
  expect(completionWire.parse({ choices, usage: { ...usage, prompt_tokens_details: count } }).usage).toMatchObject(
    usage,
  )
  const gemini = answerWire.parse({ usageMetadata: { promptTokenCount: 10, cachedContentTokenCount: count } })
  expect(gemini.usageMetadata).toEqual({ promptTokenCount: 10, cachedContentTokenCount: read })
  const anthropic = messageWire.parse({
    id: 'msg_1',
    content: [],
    stop_reason: 'end_turn',
    usage: { input_tokens: 10, output_tokens: 2, cache_read_input_tokens: count },
  })
  expect(anthropic.usage).toMatchObject({ input_tokens: 10, output_tokens: 2, cache_read_input_tokens: read })
})

test.each([
  [30, 10, 30],
  [5, 10, 10],
])(
  'an answer with %d tokens of thinking, of which at least %d were delivered, has %d tokens where no output is counted',
  (thinking, output, counted) => {
    const usage = answerUsage({ input: 20, thinking }, { input: 5, output })
    expect(usage).toEqual({ input_tokens: 20, output_tokens: counted, thinking_tokens: thinking })
  },
)
