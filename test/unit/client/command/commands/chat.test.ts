import { describe, expect, it } from 'vitest'
import { safeForTerminal } from '../../../../../client/command/commands/chat.ts'
import { chatRequest } from '../../../../../client/requests/text-requests.ts'

describe('answers on a terminal', () => {
  it('lose control characters, and keep tabs, line breaks and every script', () => {
    expect(safeForTerminal('a\tb\n\u001b[31mred\u009b0m\r\u0007\u007f שלום 日本 👩‍👩‍👧')).toBe(
      'a\tb\n[31mred0m שלום 日本 👩‍👩‍👧',
    )
  })
})

describe('the request of a prompt', () => {
  it('leaves to the service what was not asked for', () => {
    const messages = [{ role: 'user', content: 'hi' }]
    expect(chatRequest('m', 'hi', {})).toEqual({ model: 'm', messages })
    expect(chatRequest('m', 'hi', { system: 'Be brief.', maxTokens: 5 })).toEqual({
      model: 'm',
      messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
      max_tokens: 5,
    })
  })
})
