import Anthropic, { APIError, NotFoundError } from '@anthropic-ai/sdk'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ObservedSandbox, useObservedSandbox } from '../../support/processes/observed-sandbox.ts'
import {
  describeAnswers,
  describeSdk,
  keyHeader,
  readVendorFailure,
  type Sdk,
  weatherParameters,
} from './sdk-contract.ts'

let sandbox: ObservedSandbox
let client: Anthropic
beforeAll(async () => {
  sandbox = await useObservedSandbox()
  client = new Anthropic({ baseURL: sandbox.info.baseUrl, apiKey: 'not-used', fetch: sandbox.payingFetch })
})
afterAll(() => sandbox.stop())

const MODEL = 'textmodel-3.5-flash'
const user = (content: string) => [{ role: 'user' as const, content }]
const tools = [
  {
    name: 'get_weather',
    description: 'Returns the weather',
    input_schema: { ...weatherParameters, required: ['city'] },
  },
]

const others = {
  callOther: (headers: Record<string, string>) =>
    client.messages.create({ model: MODEL, messages: user('Another question'), max_tokens: 100 }, { headers }),
  callInvalid: (headers: Record<string, string>) =>
    client.messages.create({ model: 'claude-opus', messages: user('Hello'), max_tokens: 100 }, { headers }),
  invalidParam: 'model',
}

const sdk: Sdk = {
  name: '@anthropic-ai/sdk',
  sandbox: () => sandbox,
  readFailure: (error) => {
    expect(error).toBeInstanceOf(APIError)
    return readVendorFailure(error)
  },
  calls: [
    {
      ...others,
      name: 'message',
      call: (headers) =>
        client.messages.create(
          { model: MODEL, system: 'Be brief.', messages: user('Hello'), max_tokens: 100 },
          { headers },
        ),
      check: (result: Anthropic.Message) => {
        expect(result).toMatchObject({
          type: 'message',
          stop_reason: 'end_turn',
          usage: { input_tokens: expect.any(Number) },
        })
        expect(result.content[0]).toMatchObject({ type: 'text', text: expect.stringContaining('Hello') })
      },
    },
    {
      ...others,
      name: 'message with tools',
      call: (headers) =>
        client.messages.create(
          { model: MODEL, messages: user('What is the weather in Milan?'), max_tokens: 500, tools },
          { headers },
        ),
      check: (result: Anthropic.Message) => {
        expect(result.stop_reason).toBe('tool_use')
        expect(result.content.at(-1)).toMatchObject({
          type: 'tool_use',
          name: 'get_weather',
          input: { city: expect.any(String) },
        })
      },
    },
  ],
}

describeSdk(sdk)

it('@anthropic-ai/sdk: continues a conversation with a tool call', async () => {
  const observed = await sandbox.observe(() =>
    client.messages.create(
      {
        model: MODEL,
        max_tokens: 200,
        tools,
        messages: [
          ...user('What is the weather in Milan?'),
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Milan' } }],
          },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Fog' }] },
        ],
      },
      { headers: keyHeader() },
    ),
  )
  expect(observed.value?.content[0]).toMatchObject({ type: 'text', text: expect.stringContaining('Fog') })
})

it('@anthropic-ai/sdk: lists the models', async () => {
  const listed: { id: string }[] = []
  for await (const model of client.models.list()) listed.push(model)
  expect(listed.map(({ id }) => id)).toContain(MODEL)
  expect(listed).toHaveLength(10)
})

it('@anthropic-ai/sdk: reads one model, whose id may have a slash', async () => {
  for (const id of [MODEL, 'speechvendor/scribe-v2'])
    expect(await client.models.retrieve(id)).toMatchObject({
      id,
      type: 'model',
      display_name: id,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    })
  await expect(client.models.retrieve('textmodel-0')).rejects.toThrow(NotFoundError)
})

describeAnswers(() => sandbox)
