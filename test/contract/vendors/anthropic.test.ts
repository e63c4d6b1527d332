import Anthropic, { APIError, type ClientOptions } from '@anthropic-ai/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'

const KEY = 'sk-ant-a-key'
const MODEL = 'claude-sonnet-5-5'

let upstream: Upstream
let client: Anthropic
const clientWith = (options: ClientOptions = {}) =>
  new Anthropic({ baseURL: upstream.url, apiKey: KEY, maxRetries: 0, ...options })

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: KEY })
  client = clientWith()
})
afterEach(() => upstream.setFaults([]))
afterAll(() => upstream.stop())

const messages = [{ role: 'user' as const, content: 'What is a farebox?' }]
const question = { model: MODEL, messages, max_tokens: 2048 }
const tools = [
  {
    name: 'get_weather',
    description: 'Returns the weather',
    input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
  },
]
const textOf = ({ content }: Anthropic.Message) =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')

async function errorOf(call: Promise<unknown>): Promise<APIError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof APIError)) throw new Error('no APIError was thrown')
  return error
}

describe('Anthropic’s SDK reads the simulated answers of', () => {
  it('a message with its usage', async () => {
    const message = await client.messages.create({ ...question, system: 'Be brief.' })
    expect(textOf(message)).toMatch(/\w/)
    expect(message).toMatchObject({
      type: 'message',
      stop_reason: 'end_turn',
      usage: { input_tokens: expect.any(Number) },
    })
  })

  it('a streamed message, whose text and usage are those of the whole one', async () => {
    const whole = await client.messages.create(question)
    const streamed = await client.messages.stream(question).finalMessage()
    expect(textOf(streamed)).toBe(textOf(whole))
    expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
    expect(streamed.stop_reason).toBe(whole.stop_reason)
  })

  it.each([false, true])('a tool call (streamed: %s)', async (isStreamed) => {
    const options = { ...question, tools, tool_choice: { type: 'any' as const } }
    const message = isStreamed
      ? await client.messages.stream(options).finalMessage()
      : await client.messages.create(options)
    const call = message.content.find((block) => block.type === 'tool_use')
    expect(call).toMatchObject({ name: 'get_weather', input: { city: expect.any(String) } })
    expect(message.stop_reason).toBe('tool_use')
  })

  it('a refusal', async () => {
    const refused = [{ role: 'user' as const, content: 'please refuse' }]
    expect(await client.messages.create({ ...question, messages: refused })).toMatchObject({ stop_reason: 'refusal' })
  })

  it('a model with its lifecycle', async () => {
    expect(await client.models.retrieve(MODEL)).toMatchObject({ id: MODEL, lifecycle: 'active', retires_at: null })
    expect(await client.models.retrieve('claude-sonnet-4-5')).toMatchObject({ lifecycle: 'deprecated' })
  })
})

describe('Anthropic’s SDK reads the simulated errors for', () => {
  it('a wrong key', async () => {
    const error = await errorOf(clientWith({ apiKey: 'wrong' }).messages.create(question))
    expect(error).toMatchObject({ status: 401, type: 'authentication_error' })
  })

  it('an unknown model', async () => {
    const error = await errorOf(client.messages.create({ ...question, model: 'gpt-6' }))
    expect(error).toMatchObject({ status: 404, type: 'not_found_error' })
    expect(await errorOf(client.models.retrieve('gpt-6'))).toMatchObject({ status: 404, type: 'not_found_error' })
  })

  it('a conversation that ends with the model', async () => {
    const prefilled = [...messages, { role: 'assistant' as const, content: 'A farebox is' }]
    const error = await errorOf(client.messages.create({ ...question, messages: prefilled }))
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error' })
    expect(error.message).toContain('prefill')
  })

  it('more output tokens than the model has', async () => {
    const stream = client.messages.stream({ ...question, max_tokens: 1_000_000 })
    expect(await errorOf(stream.finalMessage())).toMatchObject({ status: 400, type: 'invalid_request_error' })
  })

  it.each([
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [529, 'overloaded_error'],
  ])('a status of %i', async (status, type) => {
    const body = { type: 'error', error: { type, message: 'Try again.' }, request_id: 'req_1' }
    upstream.setFaults([{ fault: 'status', status, body }])
    expect(await errorOf(client.messages.create(question))).toMatchObject({ status, type })
  })
})
