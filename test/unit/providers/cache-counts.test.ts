import { expect, test } from 'vitest'
import { messageWire } from '../../../workers/providers/anthropic/wire.ts'
import { answerWire } from '../../../workers/providers/gemini/wire.ts'
import { completionWire } from '../../../workers/providers/openai-compatible/wire.ts'

const choices = [{ finish_reason: 'stop', message: { content: 'Hi' } }]

test.each([-1, '1e3', [], null])('a count of cached tokens that is %j is left out, and the answer is used', (count) => {
  const details = { prompt_tokens_details: { cached_tokens: count } }
  const usage = { prompt_tokens: 10, completion_tokens: 2 }
  const completion = completionWire.parse({ choices, usage: { ...usage, ...details } })
  expect(completion.usage?.prompt_tokens_details?.cached_tokens ?? undefined).toBeUndefined()
  expect(completionWire.parse({ choices, usage: { ...usage, prompt_tokens_details: count } }).usage).toMatchObject(
    usage,
  )
  const gemini = answerWire.parse({ usageMetadata: { promptTokenCount: 10, cachedContentTokenCount: count } })
  expect(gemini.usageMetadata).toMatchObject({ promptTokenCount: 10, cachedContentTokenCount: undefined })
  const anthropic = messageWire.parse({
    id: 'msg_1',
    content: [],
    stop_reason: 'end_turn',
    usage: { input_tokens: 10, output_tokens: 2, cache_read_input_tokens: count },
  })
  expect(anthropic.usage).toMatchObject({ input_tokens: 10, output_tokens: 2 })
})
