import { createAnthropic } from '@ai-sdk/anthropic'
import { generateText } from 'ai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ObservedSandbox, useObservedSandbox } from '../../support/processes/observed-sandbox.ts'
import { MODEL, otherTextUses, readAiSdkFailure, textCall } from './ai-sdk.ts'
import { describeAnswers, describeSdk, keyHeader } from './sdk-contract.ts'

let sandbox: ObservedSandbox
beforeAll(async () => {
  sandbox = await useObservedSandbox()
})
afterAll(() => sandbox.stop())

const anthropic = () =>
  createAnthropic({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })

describeSdk({
  name: '@ai-sdk/anthropic',
  sandbox: () => sandbox,
  readFailure: readAiSdkFailure,
  calls: [textCall((id) => anthropic()(id))],
  otherUses: otherTextUses((id) => anthropic()(id)),
})

it('the AI SDK repeats a reused key twice despite x-should-retry: false, at no cost', async () => {
  const headers = keyHeader()
  const generate = (prompt: string) =>
    generateText({ model: anthropic()(MODEL), maxOutputTokens: 100, prompt, headers })
  await generate('Hello')
  const observed = await sandbox.observe(() => generate('Another question'))
  expect(observed).toMatchObject({ statuses: [409, 409, 409], upstreamCalls: 0, transfers: 0 })
  expect(readAiSdkFailure(observed.error)).toMatchObject({ status: 409, code: 'idempotency_key_reused' })
})

describeAnswers(() => sandbox)
