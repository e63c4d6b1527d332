import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI, { toFile } from 'openai'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import {
  createFarebox,
  type Farebox,
  type FareboxOptions,
  formatUsdc,
  walletFromPrivateKey,
} from '../../../client/farebox.ts'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { mintUsdc } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { type FaultyExchange, type HttpFault, startHttpFaultProxy } from '../../support/http/http-fault-proxy.ts'
import { createPayer, type Payer, type PayerOptions } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const PROGRAM = fileURLToPath(new URL('../../support/client/killed-call.ts', import.meta.url))
interface Ended {
  readonly signal: string | null
  readonly output: string
}
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
const say = (content: string) =>
  ({ model: 'textmodel-2.5-flash', messages: [{ role: 'user', content }], max_tokens: 20 }) as const
const HALF_USDC = 500_000n

describe('a call whose process is killed', () => {
  const FUNDS = 1_000_000n
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })
  afterAll(async () => {
    await sandbox.setFaults([])
    await sandbox.stop()
  })
  function run(home: string, payer: Payer, requestId: string, moment: string): Promise<Ended> {
    const { baseUrl, rpcUrl } = sandbox.info
    const given = [PROGRAM, home, baseUrl, rpcUrl, payer.privateKey, requestId, moment]
    return new Promise((resolve) => {
      const child = execFile(process.execPath, given, (_error, stdout, stderr) =>
        resolve({ signal: child.signalCode, output: stdout.trim() || stderr }),
      )
    })
  }
  /** Kills the call at a moment, makes it again to its end, and returns what was paid and what the journal knows. */
  async function killAndRepeat(requestId: string, moment: string) {
    const home = await mkdtemp(join(tmpdir(), 'farebox-killed-'))
    const payer = await createPayer(sandbox.info.rpcUrl, { approved: true })
    await sandbox.setFaults(moment === 'sent' ? [{ fault: 'none', delayMs: 2500 }] : [])
    try {
      const killed = await run(home, payer, requestId, moment)
      const repeated = await run(home, payer, requestId, '')
      const attempts = [...openJournal(home).attempts.all()]
      const spent = FUNDS - (await sandbox.chain.usdcBalance(payer.address))
      const jobs = await sandbox.sql<{ charge: string }>(
        "SELECT charge_amount::text AS charge FROM jobs WHERE payer = $1 AND state = 'completed'",
        [payer.address],
      )
      return { killed, repeated, attempts, spent, charges: jobs.map(({ charge }) => BigInt(charge)) }
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  }

  it.each(['intended', 'quoted', 'signed', 'sent', 'answered', 'verified'])(
    'killed when it was %s, it is charged once after it was made again',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat(randomUUID(), moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200,"verified":"passed"}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ verification, open, charged }) => [verification, open, charged])).toEqual([
        ['passed', null, spent],
      ])
    },
  )

  it.each(['intended', 'quoted', 'signed', 'sent'])(
    'killed when it was %s, a request of an SDK without a key is charged once as well',
    async (moment) => {
      const { killed, repeated, attempts, spent, charges } = await killAndRepeat('', moment)
      expect(killed.signal).toBe('SIGKILL')
      expect(repeated.output).toBe('{"status":200}')
      expect(charges).toHaveLength(1)
      expect(spent).toBe(charges[0])
      expect(attempts.map(({ open, charged }) => [open, charged])).toEqual([[null, spent]])
    },
  )
})

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

describe('refusals of the service', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterEach(() => sandbox.setFaults([]))

  afterAll(() => sandbox.stop())

  async function openFor(
    payerOptions: PayerOptions = {},
    changes: Partial<FareboxOptions> = {},
  ): Promise<{ farebox: Farebox; payer: Payer }> {
    const { baseUrl, rpcUrl } = sandbox.info
    const payer = await createPayer(rpcUrl, payerOptions)
    const wallet = walletFromPrivateKey(payer.privateKey)
    const budget = { session: '0.5' }
    return { farebox: await createFarebox({ wallet, baseUrl, rpcUrl, journal: 'memory', budget, ...changes }), payer }
  }
  const spentOf = async ({ address }: Payer, before = 1_000_000n) => before - (await sandbox.chain.usdcBalance(address))
  describe('calls of every operation', () => {
    it('each is charged what its receipt and the chain say', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const answers = [
        await farebox.chat.create(say('Hello.')),
        await farebox.messages.create({ ...say('Hello.') }),
        await farebox.images.create({ model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram.' }),
        await farebox.speech.create({ model: 'speechvendor/flash-v2.5', input: 'Hello.' }),
        await farebox.transcriptions.create({ file: sandbox.sample }),
      ]
      expect(answers.map(({ payment }) => payment.verified)).toEqual(answers.map(() => 'passed'))
      const spend = await farebox.spend()
      expect(spend.rows.map(({ operation, calls }) => [operation, calls])).toEqual([
        ['createChatCompletion', 1],
        ['createImageGeneration', 1],
        ['createMessage', 1],
        ['createSpeech', 1],
        ['createTranscription', 1],
      ])
      expect(spend.charged).toBe(await spentOf(payer))
      expect(farebox.budgetLeft().session).toBe(HALF_USDC - spend.charged)
    })

    it('equal calls at the same time under one key are one call', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      const calls = Array.from({ length: 5 }, () => farebox.chat.create(say('Once.'), { requestId }))
      const answers = await Promise.all(calls)
      expect(new Set(answers.map(({ payment }) => payment.receiptId)).size).toBe(1)
      expect(answers.filter(({ payment }) => !payment.replayed)).toHaveLength(1)
      expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(await spentOf(payer))
    })
  })

  describe('calls that the service refuses', () => {
    it('another request under a used key is refused and costs nothing', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      await farebox.chat.create(say('One.'), { requestId })
      const before = await spentOf(payer)
      const reused = farebox.chat.create(say('Other.'), { requestId })
      await expect(reused).rejects.toMatchObject({ code: 'idempotency_key_reused', money: 'none', key: requestId })
      expect(await spentOf(payer)).toBe(before)
      expect(HALF_USDC - (farebox.budgetLeft().session ?? 0n)).toBe(before)
    })

    it('without an approval and without a node the way to pay is named, and nothing stays reserved', async () => {
      const { farebox } = await openFor({}, { rpcUrl: undefined })
      const refused = farebox.chat.create(say('Hello.'))
      await expect(refused).rejects.toMatchObject({ code: 'permit2_allowance_required', status: 412, money: 'none' })
      await expect(refused).rejects.toThrow(/Approve Permit2 once/)
      expect(farebox.budgetLeft().session).toBe(HALF_USDC)
    })

    it('without an approval parallel calls take turns with permits', async () => {
      const { farebox, payer } = await openFor()
      const calls = Array.from({ length: 4 }, (_, index) => farebox.chat.create(say(`Hello ${index}.`)))
      const answers = await Promise.all(calls)
      expect(new Set(answers.map(({ payment }) => payment.transaction)).size).toBe(4)
      expect((await farebox.spend()).charged).toBe(await spentOf(payer))
    })

    it('an approved wallet pays while its node does not answer', async () => {
      const { farebox } = await openFor({ approved: true }, { rpcUrl: 'http://127.0.0.1:9/secret' })
      const { payment } = await farebox.chat.create(say('Hello.'))
      expect(payment.verified).toBe('passed')
    })

    it('a result past its retention is gone, its call stays paid once, and its receipt is still there', async () => {
      const { farebox, payer } = await openFor({ approved: true })
      const requestId = randomUUID()
      const { payment } = await farebox.chat.create(say('Hello.'), { requestId })
      await sandbox.sql("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE idempotency_key = $1", [
        requestId,
      ])
      const erased = () =>
        sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1 AND result_body IS NULL', [requestId])
      await expect.poll(erased).toHaveLength(1)
      const before = await spentOf(payer)
      const again = farebox.chat.create(say('Hello.'), { requestId })
      await expect(again).rejects.toMatchObject({ code: 'result_expired', status: 410, money: 'settled' })
      expect(await spentOf(payer)).toBe(before)
      expect((await farebox.verify(payment.receiptId ?? '')).outcome).toBe('passed')
    })

    it('a debt is named, paid for by repeating its call under its key, and then other calls are served', async () => {
      const { farebox, payer } = await openFor({ approved: true, usdcAtomic: 100_000n })
      await sandbox.setFaults([{ fault: 'none', delayMs: 3000 }])
      const requestId = randomUUID()
      const owed = farebox.chat.create(say('Owed.'), { requestId, patienceMs: 0 })
      const failed = owed.catch((error: unknown) => error)
      await expect.poll(async () => (await sandbox.upstreamCalls()).length).toBeGreaterThan(0)
      const calls = async () =>
        await sandbox.sql("SELECT 1 FROM jobs WHERE idempotency_key = $1 AND state = 'generating'", [requestId])
      await expect.poll(calls).toHaveLength(1)
      await payer.spendAll()
      expect(await failed).toMatchObject({ money: expect.stringMatching(/none|unknown|authorized/) })
      await mintUsdc(sandbox.info.rpcUrl, payer.account.address, 100_000n)
      const other = farebox.chat.create(say('Another.'), { patienceMs: 0 })
      await expect(other).rejects.toMatchObject({ code: 'unpaid_debt', money: 'none' })
      const { payment } = await farebox.chat.create(say('Owed.'), { requestId })
      expect(payment.verified).toBe('passed')
      await farebox.chat.create(say('Another.'))
      expect((await farebox.spend()).charged).toBe(await spentOf(payer, 100_000n))
    })
  })
})
