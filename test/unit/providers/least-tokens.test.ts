import { describe, expect, it } from 'vitest'
import { leastInputTokens, leastOutputTokens, leastTokens } from '../../../workers/providers/least-tokens.ts'

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
