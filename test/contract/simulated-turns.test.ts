import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startUpstream, type Upstream } from '../../infra/sandbox/upstream/server.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream({})
})
afterAll(() => upstream.stop())

/** Returns the message of an error, or the status of another answer. */
async function answerOf(path: string, headers: Record<string, string>, body: object): Promise<number | string> {
  const answer = await fetch(upstream.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  const { error } = (await answer.json()) as { error?: { message: string } }
  return error === undefined ? answer.status : `${answer.status} ${error.message}`
}

const asks = { role: 'user', content: 'Hello' }
const uses = (...ids: string[]) => ({
  role: 'assistant',
  content: ids.map((id) => ({ type: 'tool_use', id, name: 'f', input: {} })),
})
const results = (...ids: string[]) => ({
  role: 'user',
  content: ids.map((id) => ({ type: 'tool_result', tool_use_id: id, content: 'x' })),
})

describe('turns at Anthropic', () => {
  test.each<[string, object[], unknown]>([
    ['pairs', [asks, uses('a', 'b'), results('b', 'a'), uses('c'), results('c')], 200],
    [
      'one id twice',
      [asks, uses('a', 'a'), results('a')],
      refused(/^messages\.1\.content\.1: `tool_use` ids must be unique$/),
    ],
    [
      'one id in two turns',
      [asks, uses('a'), results('a'), uses('a'), results('a')],
      refused(/^messages\.3.*must be unique$/),
    ],
    ['a result alone', [results('a')], refused(/^messages\.0\.content\.0: unexpected `tool_use_id`/)],
    [
      'a call alone',
      [asks, uses('a'), asks],
      refused(/^messages\.1: `tool_use` ids were found without .* after: a\. Each/),
    ],
    ['a call at the end', [asks, uses('a')], refused(/^messages\.1: `tool_use` ids were found without/)],
    [
      'a space at the end',
      [asks, { role: 'assistant', content: 'I ' }],
      refused(/cannot end with trailing whitespace$/),
    ],
  ])('%s', async (_name, messages, expected) => {
    const headers = { 'x-api-key': 'key', 'anthropic-version': '2023-06-01' }
    const body = { model: 'claude-sonnet-4-5', max_tokens: 512, messages }
    expect(await answerOf('/v1/messages', headers, body)).toEqual(expected)
  })
})

const says = { role: 'user', parts: [{ text: 'Hello' }] }
const made = (count: number) => ({
  role: 'model',
  parts: Array.from({ length: count }, () => ({ functionCall: { name: 'f' } })),
})
const responses = (count: number) => ({
  role: 'user',
  parts: Array.from({ length: count }, () => ({ functionResponse: { name: 'f', response: {} } })),
})
const said = { role: 'model', parts: [{ text: 'x' }] }

describe('turns at Google', () => {
  test.each<[string, object[], unknown]>([
    ['pairs', [says, made(2), responses(2), made(1), responses(1)], 200],
    ['too few responses', [says, made(2), responses(1)], refused(/number of function response parts is equal/)],
    ['no response', [says, made(1), says], refused(/number of function response parts is equal/)],
    ['a response alone', [says, said, responses(1)], refused(/function response turn comes immediately after/)],
    ['calls at the beginning', [made(1), responses(1)], refused(/function call turn comes immediately after/)],
  ])('%s', async (_name, contents, expected) => {
    const path = '/v1beta/models/gemini-2.5-flash:generateContent'
    expect(await answerOf(path, { 'x-goog-api-key': 'key' }, { contents })).toEqual(expected)
  })
})

const calling = (...ids: string[]) => ({
  role: 'assistant',
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
})
const returned = (...ids: string[]) => ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'x' }))
const LONG = 'a'.repeat(41)

describe('turns at OpenAI', () => {
  test.each<[string, object[], unknown]>([
    ['pairs', [asks, calling('a', 'b'), ...returned('b', 'a'), calling('a'), ...returned('a')], 200],
    [
      'one result twice',
      [asks, calling('a'), ...returned('a', 'a')],
      refused(/Duplicate value for 'tool_call_id' of 'a'/),
    ],
    ['a result alone', [...returned('a')], refused(/must be a response to a preceeding message/)],
    ['a call alone', [asks, calling('a'), asks], refused(/must be followed by tool messages/)],
    ['a long id', [asks, calling(LONG), ...returned(LONG)], refused(/maximum length 40, but got .* 41/)],
  ])('%s', async (_name, messages, expected) => {
    expect(await answerOf('/v1/chat/completions', {}, { model: 'gpt-4.1-mini', messages })).toEqual(expected)
  })
})

function refused(message: RegExp): unknown {
  return expect.stringMatching(new RegExp(`^400 .*${message.source.replace(/^\^/, '')}`))
}
