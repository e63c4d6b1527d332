import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { toolCallKey } from '../../../../client/mcp/call/call-key.ts'

const [secret, other] = [new Uint8Array(randomBytes(32)), new Uint8Array(randomBytes(32))]
const identity = { prompt: 'Hello.', max_tokens: 20 }
const named = { tool: 'chat', requestId: 'r-1', identity }
const unnamed = { tool: 'chat', requestId: undefined, identity }

describe('the key of a tool call', () => {
  it('with a request_id depends on the wallet, the tool and the id, and on nothing else', () => {
    const key = toolCallKey(secret, 'session-1', named)
    expect(toolCallKey(secret, 'session-2', { ...named, identity: { prompt: 'Other.' } })).toBe(key)
    expect(toolCallKey(other, 'session-1', named)).not.toBe(key)
    expect(toolCallKey(secret, 'session-1', { ...named, tool: 'speak' })).not.toBe(key)
    expect(toolCallKey(secret, 'session-1', { ...named, requestId: 'r-2' })).not.toBe(key)
  })

  it('without one depends on the session and the arguments, in any order', () => {
    const key = toolCallKey(secret, 'session-1', unnamed)
    expect(toolCallKey(secret, 'session-1', { ...unnamed, identity: { max_tokens: 20, prompt: 'Hello.' } })).toBe(key)
    expect(toolCallKey(secret, 'session-2', unnamed)).not.toBe(key)
    expect(toolCallKey(secret, 'session-1', { ...unnamed, identity: { prompt: 'Hello.' } })).not.toBe(key)
  })

  it('a request_id never stands for the arguments of a session', () => {
    const forged = { tool: 'chat', requestId: JSON.stringify({ nonce: 'session-1', identity }), identity: {} }
    expect(toolCallKey(secret, 'session-1', forged)).not.toBe(toolCallKey(secret, 'session-1', unnamed))
  })
})
