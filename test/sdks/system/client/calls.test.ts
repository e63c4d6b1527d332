import Anthropic from '@anthropic-ai/sdk'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { createFarebox, formatUsdc, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { type FaultyExchange, type HttpFault, startHttpFaultProxy } from '../../../support/http/http-fault-proxy.ts'
import { createPayer } from '../../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

const RETRIES = 50
const FAULTS_BEFORE_PRICE = 4
/** SDKs wait up to eight seconds after a broken connection, so most failures are answers that ask for no wait. */
const BROKEN_CONNECTIONS: readonly HttpFault[] = ['cut request', 'lose answer', 'truncate answer', 'lose answer']
const ANSWERED_FAILURES: readonly HttpFault[] = [
  'refuse',
  'replace answer',
  'refuse',
  'replace answer',
  'replace answer',
]
const MODEL = 'textmodel-3.5-flash'
const messages = [{ role: 'user' as const, content: 'Hello' }]
interface Connection {
  readonly baseUrl: string
  readonly fetch: typeof globalThis.fetch
  readonly maxRetries: number
}
/** Returns 50 faults: six broken connections among failures that are answered, before and after the payment. */
function fiftyFaults(): HttpFault[] {
  return Array.from({ length: RETRIES }, (_, index) => {
    const faults = index % 9 === 0 ? BROKEN_CONNECTIONS : ANSWERED_FAILURES
    return faults[index % faults.length] ?? 'refuse'
  })
}
interface Outcome {
  readonly text: string
  readonly exchanges: readonly FaultyExchange[]
  readonly faultsLeft: number
  readonly spent: bigint
  readonly charges: readonly bigint[]
}

describe('an SDK that repeats one call 50 times through farebox.fetch', () => {
  /** 10 USDC. */
  const FUNDS = 10_000_000n
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())
  /** Each returns a text of the answer. */
  const CALLS: Record<string, (connection: Connection) => Promise<string>> = {
    'openai, chat completion': async ({ baseUrl, ...options }) => {
      const openai = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey: 'unused', ...options })
      const answer = await openai.chat.completions.create({ model: MODEL, messages, max_tokens: 100 })
      return answer.choices[0]?.message.content ?? ''
    },
    'openai, transcription of an uploaded file': async ({ baseUrl, ...options }) => {
      const openai = new OpenAI({ baseURL: `${baseUrl}/v1`, apiKey: 'unused', ...options })
      const file = await toFile(sandbox.sample, 'last-tram.mp3')
      return (await openai.audio.transcriptions.create({ model: 'speechvendor/scribe-v2', file })).text
    },
    '@anthropic-ai/sdk, message': async ({ baseUrl, ...options }) => {
      const anthropic = new Anthropic({ baseURL: baseUrl, apiKey: 'unused', ...options })
      const answer = await anthropic.messages.create({ model: MODEL, messages, max_tokens: 100 })
      return answer.content[0]?.type === 'text' ? answer.content[0].text : ''
    },
  }
  /** Makes one call whose first 50 exchanges fail, and reports what was sent and charged. */
  async function callThroughFaults(call: (connection: Connection) => Promise<string>): Promise<Outcome> {
    const { info, chain } = sandbox
    const payer = await createPayer(info.rpcUrl, { usdcAtomic: FUNDS, approved: true })
    const faults = fiftyFaults()
    // The challenge arrives after a few failures: from then on every request brings the payment.
    const isPriced = () => faults.length === RETRIES - FAULTS_BEFORE_PRICE
    let challenges = 0
    const proxy = await startHttpFaultProxy(info.baseUrl, ({ isPaid }) =>
      !isPaid && isPriced() && challenges++ === 0 ? 'none' : (faults.shift() ?? 'none'),
    )
    const wallet = walletFromPrivateKey(payer.privateKey)
    const budget = { session: formatUsdc(FUNDS) }
    const farebox = await createFarebox({ wallet, baseUrl: proxy.url, journal: 'memory', verify: 'never', budget })
    try {
      const text = await call({ baseUrl: proxy.url, fetch: farebox.fetch, maxRetries: RETRIES })
      const transfers = (await chain.transfersTo(info.payTo)).filter(({ from }) => from.toLowerCase() === payer.address)
      const spent = FUNDS - (farebox.budgetLeft().session ?? 0n)
      const charges = transfers.map(({ valueAtomic }) => valueAtomic)
      return { text, exchanges: proxy.exchanges, faultsLeft: faults.length, spent, charges }
    } finally {
      await farebox.close()
      await proxy.stop()
    }
  }

  let outcomes: Map<string, Outcome>
  beforeAll(async () => {
    const entries = Object.entries(CALLS).map(async ([name, call]) => [name, await callThroughFaults(call)] as const)
    outcomes = new Map(await Promise.all(entries))
  })

  test.each(Object.keys(CALLS))('%s: one key, and one charge on chain, which is what its budget counts', (name) => {
    const { text, exchanges, faultsLeft, spent, charges } = outcomes.get(name) as Outcome
    expect(text).not.toBe('')
    // 50 failures, the challenge, and the answer.
    expect({ faultsLeft, exchanges: exchanges.length }).toEqual({ faultsLeft: 0, exchanges: RETRIES + 2 })
    expect(new Set(exchanges.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1)
    expect(exchanges.filter(({ isPaid, fault }) => isPaid && /answer/.test(fault)).length).toBeGreaterThan(20)
    expect(charges).toEqual([spent])
  })

  test('each vendor was called once', async () => {
    expect(await sandbox.upstreamCalls()).toHaveLength(outcomes.size)
  })
})

describe('a wallet whose Permit2 allowance is left over from elsewhere', () => {
  const FUNDS = 20_000_000n
  const LEFTOVER = 60_000n
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(() => sandbox.stop())

  it.each(['with', 'without'])('%s an RPC URL, answers all calls of an SDK through farebox.fetch', async (node) => {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, { usdcAtomic: FUNDS })
    await payer.approve(LEFTOVER)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const given = { wallet, baseUrl, journal: 'memory', verify: 'never' } as const
    const farebox = await createFarebox({ ...given, ...(node === 'with' && { rpcUrl }) })
    const openai = new OpenAI({
      baseURL: `${farebox.baseUrl}v1`,
      apiKey: 'unused',
      fetch: farebox.fetch,
      maxRetries: 0,
    })
    const calls = Array.from({ length: 40 }, (_each, index) =>
      openai.chat.completions.create({
        model: MODEL,
        messages: [{ role: 'user', content: `Hello ${index}.` }],
        max_tokens: 20,
      }),
    )
    expect((await Promise.allSettled(calls)).filter(({ status }) => status === 'rejected')).toEqual([])
    expect(farebox.spend().charged).toBe(FUNDS - (await sandbox.chain.usdcBalance(payer.address)))
    await farebox.close()
  })
})
