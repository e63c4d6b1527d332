import { createAnthropic } from '@ai-sdk/anthropic'
import Anthropic from '@anthropic-ai/sdk'
import { x402Client as AxiosClient, wrapAxiosWithPayment } from '@x402/axios'
import { DEFAULT_MAX_AMOUNT_PER_PAYMENT } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { generateText } from 'ai'
import axios from 'axios'
import NpmFormData from 'form-data'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { highestPrice } from '../../../../shared/catalog/price-bounds.ts'
import { publishedCatalog } from '../../../../shared/catalog/published-catalog.ts'
import { atomicFromDollars } from '../../../../shared/money/atomic-amount.ts'
import { challengeOf } from '../../../support/payer/custom-payment.ts'
import { type ObservedSandbox, useObservedSandbox } from '../../../support/processes/observed-sandbox.ts'
import { keyHeader } from '../../support/sdk-contract.ts'

const NETWORK = 'eip155:8453'
const CHAT = '/v1/chat/completions'
const body = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }
const LIMIT = atomicFromDollars(String(DEFAULT_MAX_AMOUNT_PER_PAYMENT).replace('$', ''))

describe('the official x402 clients', () => {
  let sandbox: ObservedSandbox
  let account: ReturnType<typeof privateKeyToAccount>
  let scheme: UptoEvmScheme
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
    account = privateKeyToAccount(sandbox.info.payer.privateKey)
    scheme = new UptoEvmScheme(account, { rpcUrl: sandbox.info.rpcUrl })
  })
  afterAll(() => sandbox.stop())

  /** Returns a challenge of the service with another price. */
  async function challengeAt(amount: bigint): Promise<PaymentRequired> {
    const required = challengeOf(await sandbox.post(CHAT, body))
    return { ...required, accepts: required.accepts.map((accepted) => ({ ...accepted, amount: amount.toString() })) }
  }

  const paying = () =>
    wrapAxiosWithPayment(
      axios.create({ baseURL: sandbox.info.baseUrl }),
      new x402Client().register(NETWORK, scheme) as never,
    )
  const npmForm = () => {
    const form = new NpmFormData()
    form.append('model', 'speechvendor/scribe-v2')
    form.append('file', sandbox.sample, 'last-tram.mp3')
    return form
  }

  it('a client that has only the scheme exact reads which two lines make it able to pay, and they do', async () => {
    const client = new x402Client().register(NETWORK, new ExactEvmScheme(account))
    const headers = { 'content-type': 'application/json', ...keyHeader() }
    const call = () =>
      fetchPaying(`${sandbox.info.baseUrl}${CHAT}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const fetchPaying = wrapFetchWithPayment(fetch, client)
    await expect(call()).rejects.toThrow(/No .* registered|upto/)
    const { message } = (await (await sandbox.post(CHAT, body)).json()) as { message: string }
    expect(message).toMatch(
      /import \{ UptoEvmScheme \} from '@x402\/evm\/upto\/client'; client\.register\('eip155:8453'/,
    )
    client.register(NETWORK, scheme)
    expect((await call()).status).toBe(200)
  })

  it('@x402/fetch pays for the dearest published call, and for what its user allows beyond its own limit', async () => {
    const client = new x402Client().register(NETWORK, scheme)
    expect(highestPrice(publishedCatalog)).toBeLessThanOrEqual(LIMIT)
    expect(await client.createPaymentPayload(await challengeAt(highestPrice(publishedCatalog)))).toBeTruthy()
    const beyond = await challengeAt(LIMIT + 1n)
    await expect(client.createPaymentPayload(beyond)).rejects.toThrow(/spend|cap|exceed|limit/i)
    client.setSpendControls({ maxAmountPerPayment: '$1.000001' })
    expect(await client.createPaymentPayload(beyond)).toBeTruthy()
  })

  it('the client that @x402/axios brings has no limit of 1 USD', async () => {
    const own = new AxiosClient().register(NETWORK, scheme)
    expect(await own.createPaymentPayload((await challengeAt(LIMIT + 1n)) as never)).toBeTruthy()
  })

  describe('@x402/axios with the client of @x402/fetch', () => {
    const TRANSCRIPTIONS = '/v1/audio/transcriptions'

    it('pays for a call', async () => {
      const answer = await paying().post(CHAT, body, { headers: keyHeader() })
      expect(answer.data).toMatchObject({ object: 'chat.completion' })
    })

    it('pays for a form of the platform, and for the bytes of one of npm’s form-data', async () => {
      const form = new FormData()
      form.set('model', 'speechvendor/scribe-v2')
      form.set('file', new Blob([new Uint8Array(sandbox.sample)]), 'last-tram.mp3')
      const whole = npmForm()
      const headers = { ...whole.getHeaders(), ...keyHeader() }
      for (const answer of [
        await paying().post(TRANSCRIPTIONS, form, { headers: keyHeader() }),
        await paying().post(TRANSCRIPTIONS, whole.getBuffer(), { headers }),
      ])
        expect(answer.data).toMatchObject({ text: expect.stringContaining('tram') })
    })

    it('never sends the signed form of a used-up stream, and nothing is charged', async () => {
      const before = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
      const form = npmForm()
      const stuck = paying().post(TRANSCRIPTIONS, form, {
        headers: { ...form.getHeaders(), ...keyHeader() },
        timeout: 3000,
      })
      await expect(stuck).rejects.toThrow(/timeout|network|aborted/i)
      expect((await sandbox.chain.transfersTo(sandbox.info.payTo)).length).toBe(before)
    })
  })

  it('@anthropic-ai/sdk asks for a long answer once it is given a time limit, and sends nothing otherwise', async () => {
    const client = new Anthropic({ baseURL: sandbox.info.baseUrl, apiKey: 'not-used', fetch: sandbox.payingFetch })
    const create = (max_tokens: number, options: object = {}) =>
      sandbox.observe(
        async () =>
          // Refused synchronously, not as a rejected promise.
          await client.messages.create({ ...body, max_tokens } as never, { headers: keyHeader(), ...options }),
      )
    expect((await create(21_333)).statuses).toEqual([402, 200])
    for (const tokens of [21_334, 64_000, 65_536]) {
      expect((await create(tokens)).statuses).toEqual([])
      expect((await create(tokens, { timeout: 300_000 })).statuses).toEqual([402, 200])
    }
  })

  it('`ai` repeats a 503 twice despite x-should-retry: false, uncharged', async () => {
    await sandbox.setFaults([{ fault: 'emptyText', times: 'always' }])
    const model = createAnthropic({
      baseURL: `${sandbox.info.baseUrl}/v1`,
      apiKey: 'not-used',
      fetch: sandbox.payingFetch,
    })
    const generate = (options: object) =>
      sandbox.observe(() =>
        generateText({
          model: model(body.model),
          prompt: 'Hello',
          headers: keyHeader(),
          maxOutputTokens: 40,
          ...options,
        }),
      )
    const observed = await generate({})
    const refused = observed.answers.filter(({ status }) => status === 503)
    expect(refused.map(({ headers }) => headers.get('x-should-retry'))).toEqual(['false', 'false', 'false'])
    expect(observed.transfers).toBe(0)
    expect((await generate({ maxRetries: 0 })).statuses).toEqual([402, 503])
    await sandbox.setFaults([])
  })
})
