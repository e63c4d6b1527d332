import Anthropic from '@anthropic-ai/sdk'
import OpenAI, { toFile } from 'openai'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { countedClient, paidByPayer } from '../../../support/payer/counted-client.ts'
import { createPayer } from '../../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../../support/processes/test-sandbox.ts'
import { keyHeader } from '../../support/sdk-contract.ts'

const SDK_CALLS = 8
const SDK_CALLS_AT_ONCE = 4
/** More than any call needs on the slowest machine; two are the default and suffice on most. */
const PATIENT_RETRIES = 50
const AMPLE_ATOMIC = 10_000_000n

describe('a wallet with USDC, without gas and without an approval', () => {
  let sandbox: TestSandbox
  beforeAll(async () => {
    sandbox = await startTestSandbox({ apis: 4 })
  })
  afterAll(() => sandbox.stop())

  it.each(['openai', 'anthropic'])(
    '%s: its own retry pays for parallel calls one after the other, without an approval',
    async (sdk) => {
      const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
      const client = countedClient(sandbox, payer)
      const { baseUrl } = sandbox.info
      const settings = { apiKey: 'not-used', fetch: client.fetch, maxRetries: PATIENT_RETRIES }
      const openai = new OpenAI({ ...settings, baseURL: `${baseUrl}/v1` })
      const anthropic = new Anthropic({ ...settings, baseURL: baseUrl })
      const call = async (): Promise<unknown> => {
        const options = { headers: keyHeader() }
        if (sdk === 'anthropic') {
          const messages = [{ role: 'user' as const, content: 'Good evening.' }]
          return await anthropic.messages.create({ model: 'textmodel-3.5-flash', max_tokens: 100, messages }, options)
        }
        const file = await toFile(sandbox.sample, 'last-tram.mp3')
        return await openai.audio.transcriptions.create({ model: 'speechvendor/scribe-v2', file }, options)
      }
      const limit = pLimit(SDK_CALLS_AT_ONCE)
      await Promise.all(Array.from({ length: SDK_CALLS }, () => limit(call)))
      expect(await paidByPayer(sandbox, payer)).toMatchObject({ charged: SDK_CALLS, transfers: SDK_CALLS })
      console.info(`${sdk}: ${SDK_CALLS} calls, ${SDK_CALLS_AT_ONCE} at once, met ${JSON.stringify(client.statuses)}`)
    },
  )

  it('a wallet without an approval pays for 12 parallel calls over four APIs with the two retries of an official SDK', async () => {
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: AMPLE_ATOMIC })
    const client = countedClient(sandbox, payer, 4)
    const openai = new OpenAI({ apiKey: 'not-used', fetch: client.fetch, baseURL: `${sandbox.info.baseUrl}/v1` })
    const messages = [{ role: 'user' as const, content: 'Good evening.' }]
    const call = () =>
      openai.chat.completions.create({ model: 'textmodel-3.5-flash', messages }, { headers: keyHeader() })
    const answers = await Promise.allSettled(Array.from({ length: 12 }, call))
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([])
    expect(await paidByPayer(sandbox, payer)).toMatchObject({ charged: 12, transfers: 12 })
  })
})
