import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { afterAll, beforeAll } from 'vitest'
import { type ObservedSandbox, useObservedSandbox } from '../../support/processes/observed-sandbox.ts'
import { imageCall, otherTextUses, readAiSdkFailure, textCall } from './ai-sdk.ts'
import { describeAnswers, describeSdk } from './sdk-contract.ts'

let sandbox: ObservedSandbox
beforeAll(async () => {
  sandbox = await useObservedSandbox()
})
afterAll(() => sandbox.stop())

const compatible = () =>
  createOpenAICompatible({
    name: 'farebox',
    baseURL: `${sandbox.info.baseUrl}/v1`,
    apiKey: 'not-used',
    supportsStructuredOutputs: true,
    fetch: sandbox.payingFetch,
  })

describeSdk({
  name: '@ai-sdk/openai-compatible',
  sandbox: () => sandbox,
  readFailure: readAiSdkFailure,
  otherUses: otherTextUses((id) => compatible().chatModel(id)),
  calls: [
    textCall((id) => compatible().chatModel(id)),
    // This package fetches the hosted image although it has requested the bytes inline.
    { ...imageCall((id) => compatible().imageModel(id)), fetchesAfterwards: [200] },
  ],
})

describeAnswers(() => sandbox)
