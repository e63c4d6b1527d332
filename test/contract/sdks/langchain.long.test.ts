import { ChatAnthropic } from '@langchain/anthropic'
import { ChatOpenAI } from '@langchain/openai'
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
beforeAll(async () => {
  sandbox = await useObservedSandbox()
})
afterAll(() => sandbox.stop())

const MODEL = 'textmodel-3.5-flash'
const tool = {
  type: 'function' as const,
  function: { name: 'get_weather', description: 'Returns the weather', parameters: weatherParameters },
}

interface Message {
  text: string
  tool_calls: { name: string; args: Record<string, unknown> }[]
  usage_metadata?: { total_tokens: number }
}

/** Both accept headers with the model or with each call; an agent that makes many calls needs a key for each. */
const chatOpenAI = (defaultHeaders: Record<string, string>, id = MODEL) =>
  new ChatOpenAI({
    model: id,
    maxTokens: 300,
    apiKey: 'not-used',
    configuration: { baseURL: `${sandbox.info.baseUrl}/v1`, fetch: sandbox.payingFetch, defaultHeaders },
  })

const chatAnthropic = (defaultHeaders: Record<string, string>, id = MODEL) =>
  new ChatAnthropic({
    model: id,
    maxTokens: 300,
    apiKey: 'not-used',
    anthropicApiUrl: sandbox.info.baseUrl,
    clientOptions: { fetch: sandbox.payingFetch, defaultHeaders },
  })

function sdkOf(name: string, chat: typeof chatOpenAI | typeof chatAnthropic): Sdk {
  return {
    name,
    sandbox: () => sandbox,
    readFailure: readVendorFailure,
    calls: [
      {
        name: 'invoke',
        call: (headers) => chat(headers).invoke('Hello'),
        check: (message: Message) => {
          expect(message.text).toContain('Hello')
          expect(message.usage_metadata?.total_tokens).toBeGreaterThan(0)
        },
        callOther: (headers) => chat(headers).invoke('Another question'),
        callInvalid: (headers) => chat(headers, 'gpt-4o').invoke('Hello'),
        invalidParam: 'model',
      },
    ],
    otherUses: [
      {
        name: 'bindTools',
        call: (headers) => chat(headers).bindTools([tool]).invoke('What is the weather in Milan?'),
        check: (message: Message) =>
          expect(message.tool_calls).toMatchObject([{ name: 'get_weather', args: { city: expect.any(String) } }]),
      },
      {
        name: 'withStructuredOutput',
        call: (headers) => chat(headers).withStructuredOutput(weatherParameters).invoke('Where?'),
        check: (object: unknown) => expect(object).toMatchObject({ city: expect.any(String) }),
      },
    ],
  }
}

describeSdk(sdkOf('ChatOpenAI', chatOpenAI))
describeSdk(sdkOf('ChatAnthropic', chatAnthropic))

it('ChatOpenAI and ChatAnthropic prefer a call’s header to the model’s', async () => {
  const [first, second] = [keyHeader(), keyHeader()]
  const { answers } = await sandbox.observe(async () => {
    await chatOpenAI(first).invoke('Hello', { options: { headers: second } })
    await chatAnthropic(second).invoke('Hello', { headers: first })
  })
  expect(answers.map(({ idempotencyKey }) => idempotencyKey)).toEqual(
    [second, second, first, first].map((header) => header['x-idempotency-key']),
  )
})

describeAnswers(() => sandbox)
