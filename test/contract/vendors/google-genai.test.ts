import { ApiError, FunctionCallingConfigMode, GoogleGenAI, ThinkingLevel } from '@google/genai'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startUpstream, type Upstream } from '../../../infra/sandbox/upstream/server.ts'

const KEY = 'a-key'
const MODEL = 'gemini-3.6-flash'

let upstream: Upstream
let client: GoogleGenAI
/** The version that farebox calls; the SDK's own default is `v1` since its version 3. */
const clientWith = (apiKey: string) =>
  new GoogleGenAI({
    apiKey,
    httpOptions: { baseUrl: upstream.url, apiVersion: 'v1beta', retryOptions: { attempts: 1 } },
  })

beforeAll(async () => {
  upstream = await startUpstream({ apiKey: KEY })
  client = clientWith(KEY)
})
afterEach(() => upstream.setFaults([]))
afterAll(() => upstream.stop())

const question = {
  model: MODEL,
  contents: 'What is a farebox?',
  config: { maxOutputTokens: 2048, thinkingConfig: { thinkingLevel: ThinkingLevel.LOW } },
}
const functionDeclarations = [
  {
    name: 'get_weather',
    description: 'Returns the weather',
    parametersJsonSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
]
const toolConfig = { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } }

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = []
  for await (const item of items) collected.push(item)
  return collected
}

async function errorOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ApiError)) throw new Error('no ApiError was thrown')
  return error
}

describe('Google’s SDK reads the simulated answers of', () => {
  it('a text with its usage', async () => {
    const answer = await client.models.generateContent(question)
    expect(answer.text).toMatch(/\w/)
    expect(answer.candidates?.[0]?.finishReason).toBe('STOP')
    expect(answer.usageMetadata?.thoughtsTokenCount).toBeGreaterThan(0)
  })

  it('a streamed text, whose text and usage are those of the whole one', async () => {
    const whole = await client.models.generateContent(question)
    const chunks = await collect(await client.models.generateContentStream(question))
    expect(chunks.map(({ text }) => text ?? '').join('')).toBe(whole.text)
    expect(chunks.at(-1)?.usageMetadata).toEqual(whole.usageMetadata)
    expect(chunks.at(-1)?.candidates?.[0]?.finishReason).toBe('STOP')
  })

  it('a function call with its thought signature, whole and streamed', async () => {
    const options = { ...question, config: { ...question.config, tools: [{ functionDeclarations }], toolConfig } }
    const answer = await client.models.generateContent(options)
    expect(answer.functionCalls).toMatchObject([{ name: 'get_weather', args: { city: expect.any(String) } }])
    expect(answer.candidates?.[0]?.content?.parts?.[0]?.thoughtSignature).toEqual(expect.any(String))
    const chunks = await collect(await client.models.generateContentStream(options))
    expect(chunks.flatMap(({ functionCalls = [] }) => functionCalls)).toEqual(answer.functionCalls)
  })

  it('JSON of a schema', async () => {
    const responseJsonSchema = { type: 'object', properties: { stops: { type: 'integer' } }, required: ['stops'] }
    const config = { ...question.config, responseMimeType: 'application/json', responseJsonSchema }
    const answer = await client.models.generateContent({ ...question, config })
    expect(JSON.parse(answer.text ?? '')).toEqual({ stops: expect.any(Number) })
  })

  it('an image', async () => {
    const answer = await client.models.generateContent({
      model: 'gemini-3.1-flash-lite-image',
      contents: 'A tram',
      config: { responseModalities: ['IMAGE'], imageConfig: { aspectRatio: '1:1', imageSize: '1K' } },
    })
    expect(answer.data?.length).toBeGreaterThan(1000)
    expect(answer.candidates?.[0]?.content?.parts?.[0]?.inlineData?.mimeType).toBe('image/png')
  })

  it('a blocked prompt', async () => {
    const answer = await client.models.generateContent({ ...question, contents: 'please block' })
    expect(answer.promptFeedback?.blockReason).toBe('PROHIBITED_CONTENT')
  })

  it('a model, and the list', async () => {
    expect(await client.models.get({ model: MODEL })).toMatchObject({
      name: `models/${MODEL}`,
      outputTokenLimit: 65_536,
    })
    const models = await collect(await client.models.list())
    expect(models.map(({ name }) => name)).toContain('models/gemini-3.8-flash')
  })
})

describe('Google’s SDK reads the simulated errors for', () => {
  it('a wrong key', async () => {
    const error = await errorOf(clientWith('wrong').models.generateContent(question))
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining('API_KEY_INVALID') })
  })

  it('an unknown model', async () => {
    expect(await errorOf(client.models.generateContent({ ...question, model: 'unknown' }))).toMatchObject({
      status: 404,
    })
    expect(await errorOf(client.models.get({ model: 'unknown' }))).toMatchObject({ status: 404 })
  })

  it('penalties', async () => {
    const config = { ...question.config, presencePenalty: 0.5 }
    const error = await errorOf(client.models.generateContent({ ...question, config }))
    expect(error).toMatchObject({ status: 400, message: expect.stringContaining('enalty is not enabled') })
  })

  it('an image from a model of text', async () => {
    const config = { responseModalities: ['IMAGE'] }
    expect(await errorOf(client.models.generateContent({ ...question, config }))).toMatchObject({ status: 400 })
  })

  it.each([429, 500, 503])('a status of %i', async (status) => {
    const body = { error: { code: status, message: 'Try again.', status: 'UNAVAILABLE' } }
    upstream.setFaults([{ fault: 'status', status, body }])
    const error = await errorOf(client.models.generateContent(question))
    expect(error).toMatchObject({ status, message: expect.stringContaining('UNAVAILABLE') })
  })
})
