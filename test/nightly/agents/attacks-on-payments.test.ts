import { generatePrivateKey } from 'viem/accounts'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { type AttackBench, makeAttackBench } from '../../support/agents/attack-bench.ts'
import {
  callHosted,
  challengeIn,
  codeOf,
  KEY_META,
  PAYMENT_META,
  type PaidHostedCall,
  payHosted,
  signHosted,
} from '../../support/agents/hosted-calls.ts'
import { THIEF } from '../../support/agents/injection-texts.ts'
import { logsOf } from '../../support/agents/logs-of.ts'
import { type McpProcess, type ToolAnswer, toolAnswer } from '../../support/agents/mcp-process.ts'
import { outflowsOf, spent, violations } from '../../support/agents/money-checks.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const chat = (content = 'Good evening.') => ({
  model: 'textmodel-2.5-flash',
  messages: [{ role: 'user', content }],
  max_tokens: 20,
})
const withPayment = ({ name, args, meta }: PaidHostedCall, payment: unknown): PaidHostedCall => ({
  name,
  args,
  meta: { ...meta, [PAYMENT_META]: payment },
})
type Json = Record<string, unknown>
const changed = (call: PaidHostedCall, change: (payment: Json, authorization: Json) => void): PaidHostedCall => {
  const payment = structuredClone(call.meta[PAYMENT_META]) as Json & {
    payload: { permit2Authorization: Json }
  }
  change(payment, payment.payload.permit2Authorization)
  return withPayment(call, payment)
}
const MODEL = 'textmodel-2.5-flash'
/** Above the price that needs a person's agreement, and above the limit of a call. */
const [DEAR_TOKENS, TOO_DEAR_TOKENS] = [4000, 8000]
const dear = (prompt: string, tokens = DEAR_TOKENS) => ({ prompt, model: MODEL, max_tokens: tokens })
const refusedAs = (code: string) => ({ isError: true, structuredContent: { error: { code, money: 'none' } } })
const isQuestion = (answer: ToolAnswer) => JSON.stringify(answer).includes('"inputRequests"')
const AGREED = { action: 'accept', content: { agree: true } }
const CALLS = 200
/** What one call is charged, in atomic USDC: the minimum. */
const PRICE = 2000n
/** Makes 200 different calls at once, in `servers` processes; returns the codes of those that were refused. */
async function callAtOnce(bench: AttackBench, servers: number): Promise<readonly string[]> {
  const started = Array.from({ length: servers }, () => bench.start())
  await Promise.all(started.map((server) => server.initialize()))
  const answers = await Promise.all(
    Array.from({ length: CALLS }, async (_, index) => {
      const server = started[index % servers]
      return await server?.call('chat', { prompt: `Call ${index}.`, model: MODEL, max_tokens: 10 })
    }),
  )
  return answers.flatMap((answer) => answer?.structuredContent?.error?.code ?? [])
}

describe('payments to the hosted server', () => {
  let sandbox: SharedSandbox
  let payer: Payer
  let signer: ReturnType<typeof createPayingClient>
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  beforeEach(async () => {
    const { rpcUrl, network } = sandbox.info
    payer = await createPayer(rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
    signer = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
  })

  const sign = (name = 'chat', args: object = chat()) => signHosted(sandbox.info.baseUrl, signer, name, args)
  const pay = (call: PaidHostedCall) => payHosted(sandbox.info.baseUrl, call)
  const transfers = async () =>
    (await outflowsOf(sandbox, payer.address)).filter(({ kind }) => kind === 'transfer').map(({ to }) => to)
  describe('a client that cannot pay', () => {
    it('gets the price and the terms each time, and begins nothing', async () => {
      const jobs = await sandbox.added('jobs')
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => callHosted(sandbox.info.baseUrl, 'chat', chat())),
      )
      for (const answer of answers) {
        const { accepts } = challengeIn(answer)
        expect(accepts[0]).toMatchObject({ scheme: 'upto', payTo: sandbox.info.payTo.toLowerCase() })
        const [block] = answer.content
        expect(block?.text).toBe(JSON.stringify(answer.structuredContent))
      }
      expect(await sandbox.added('jobs')).toBe(jobs)
    })

    it('is not served for a payment in a header, an argument or a structure of its own', async () => {
      const { args, meta } = await sign()
      const payment = meta[PAYMENT_META]
      const encoded = Buffer.from(JSON.stringify(payment)).toString('base64')
      const body = {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'chat', arguments: args, _meta: { x402: { payment }, 'x402/Payment': payment } },
      }
      const answer = await fetch(`${sandbox.info.baseUrl}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'payment-signature': encoded,
          'x-payment': encoded,
        },
        body: JSON.stringify(body),
      })
      expect(await answer.text()).toMatch(/accepts/)
      const inArguments = await callHosted(sandbox.info.baseUrl, 'chat', { ...args, payment })
      expect(inArguments.isError).toBe(true)
      expect(await transfers()).toEqual([])
    })
  })

  describe('a payment for another call', () => {
    it('is a conflict with other arguments, and neither call is charged', async () => {
      const call = await sign()
      const answer = await pay({ ...call, args: chat('Good morning.') })
      expect(answer.isError).toBe(true)
      expect(codeOf(answer)).toBe('idempotency_key_reused')
      expect(await transfers()).toEqual([])
      expect((await pay(call)).isError ?? false).toBe(false)
      expect(await transfers()).toHaveLength(1)
    })

    it('is a conflict with other arguments after the call was charged, too', async () => {
      const call = await sign()
      await pay(call)
      expect(codeOf(await pay({ ...call, args: { ...chat(), max_tokens: 21 } }))).toBe('idempotency_key_reused')
      expect(await transfers()).toHaveLength(1)
    })

    it('is a conflict with another tool', async () => {
      const call = await sign()
      const answer = await pay({ ...call, name: 'speak', args: { model: 'speechvendor/flash-v2.5', input: 'Hello.' } })
      expect(codeOf(answer)).toBe('idempotency_key_reused')
      expect(await transfers()).toEqual([])
    })

    it('does not pay for a dearer call under another key', async () => {
      const cheap = await sign()
      const args = { ...chat(), max_tokens: 60_000 }
      const { meta, challenge } = await sign('chat', args)
      expect(BigInt(challenge.accepts[0]?.amount ?? 0)).toBeGreaterThan(2000n)
      const answer = await pay({ name: 'chat', args, meta: { ...meta, [PAYMENT_META]: cheap.meta[PAYMENT_META] } })
      expect(answer.isError).toBe(true)
      expect(await transfers()).toEqual([])
    })

    it('that was settled does not pay again under another key', async () => {
      const call = await sign()
      await pay(call)
      const other = await sign()
      const stolen = await pay(withPayment(other, call.meta[PAYMENT_META]))
      expect(stolen.isError).toBe(true)
      expect(stolen.structuredContent?.['choices']).toBeUndefined()
      expect(await transfers()).toHaveLength(1)
    })
  })

  describe('a payment that is not what the challenge asked for', () => {
    const CHANGES: readonly (readonly [string, (payment: Json, authorization: Json) => void])[] = [
      ['another recipient', (_, authorization) => Object.assign(authorization['witness'] as Json, { to: THIEF })],
      ['another facilitator', (_, { witness }) => Object.assign(witness as Json, { facilitator: THIEF })],
      ['another payer', (_, authorization) => Object.assign(authorization, { from: THIEF })],
      ['another token', (_, { permitted }) => Object.assign(permitted as Json, { token: THIEF })],
      ['a lower amount', (_, { permitted }) => Object.assign(permitted as Json, { amount: '1' })],
      ['a higher amount', (_, { permitted }) => Object.assign(permitted as Json, { amount: '999999999' })],
      ['another nonce', (_, authorization) => Object.assign(authorization, { nonce: '1' })],
      ['a later deadline', (_, authorization) => Object.assign(authorization, { deadline: '9999999999' })],
      ['another spender', (_, authorization) => Object.assign(authorization, { spender: THIEF })],
      ['another scheme', ({ accepted }) => Object.assign(accepted as Json, { scheme: 'exact' })],
      ['another network', ({ accepted }) => Object.assign(accepted as Json, { network: 'eip155:1' })],
      ['an accepted recipient of its own', ({ accepted }) => Object.assign(accepted as Json, { payTo: THIEF })],
      ['no signature', ({ payload }) => Object.assign(payload as Json, { signature: '0x' })],
      ['the first version', (payment) => Object.assign(payment, { x402Version: 1 })],
    ]

    it.each(CHANGES)('is refused: %s', async (_, change) => {
      const call = await sign()
      const answer = await pay(changed(call, change))
      expect(answer.isError).toBe(true)
      expect(await transfers()).toEqual([])
      // The same key is still good for the payment that was asked for.
      expect((await pay(call)).isError ?? false).toBe(false)
      expect(await transfers()).toEqual([sandbox.info.payTo.toLowerCase()])
    })

    it.each([
      ['a text', 'payment'],
      ['its own encoding', 'eyJ4NDAyVmVyc2lvbiI6Mn0='],
      ['a number', 1],
      ['a list', []],
      ['an empty object', {}],
      ['true', true],
      ['an object of great depth', JSON.parse(`${'{"a":'.repeat(50)}1${'}'.repeat(50)}`)],
      ['200,000 characters', { x402Version: 2, padding: 'x'.repeat(200_000) }],
    ])('is refused when it is %s, with a sentence and without a charge', async (_, payment) => {
      const answer = await callHosted(sandbox.info.baseUrl, 'chat', chat(), {
        [KEY_META]: crypto.randomUUID(),
        [PAYMENT_META]: payment,
      })
      expect(answer.isError).toBe(true)
      expect(JSON.stringify(answer).length).toBeLessThan(20_000)
      expect(await transfers()).toEqual([])
    })
  })

  describe('the private key of a caller', () => {
    it.each([
      ['an argument', (key: string) => [{ ...chat(), private_key: key }, {}]],
      ['an argument of another name', (key: string) => [{ ...chat(), wallet_key: key }, {}]],
      ['metadata', (key: string) => [chat(), { 'x402/privateKey': key }]],
      ['metadata of no telling name', (key: string) => [chat(), { auth: { token: key } }]],
    ] as const)('is refused in %s, and neither returned nor logged', async (_, make) => {
      const key = generatePrivateKey()
      const [args, meta] = make(key)
      const answer = await callHosted(sandbox.info.baseUrl, 'chat', args as object, meta)
      expect(answer.isError).toBe(true)
      expect(JSON.stringify(answer)).not.toContain(key.slice(2))
      expect(JSON.stringify(answer)).toMatch(/private key/)
      expect(await logsOf(sandbox)).not.toContain(key.slice(2))
    })
  })

  describe('one call that is repeated', () => {
    it('50 times at once and one after the other is charged once, with equal bytes', async () => {
      const call = await sign()
      const bytes = async () => {
        const { content, structuredContent, isError } = await pay(call)
        return JSON.stringify({ content, structuredContent, isError })
      }
      const together = await Promise.all(Array.from({ length: 25 }, bytes))
      const inTurn: string[] = []
      for (let count = 0; count < 25; count += 1) inTurn.push(await bytes())
      const results = [...together, ...inTurn].filter((text) => !text.includes('"isError":true'))
      expect(results.length).toBeGreaterThanOrEqual(26)
      expect(new Set(results).size).toBe(1)
      expect(await transfers()).toHaveLength(1)
      expect(await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).toHaveLength(1)
    })

    it('with a key of its own each time is charged each time: the count above can fail', async () => {
      const calls = await Promise.all(Array.from({ length: 5 }, () => sign()))
      for (const call of calls) await pay(call)
      expect(await transfers()).toHaveLength(5)
      expect(spent({ outflows: await outflowsOf(sandbox, payer.address) })).toBe(10_000n)
    })
  })
})

describe('confirmations by a person', () => {
  let sandbox: SharedSandbox
  let bench: AttackBench
  let limitsBefore: string
  /** Payments that earlier tests have made. */
  let earlier: number
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    bench = await makeAttackBench(sandbox)
    await bench.setLimits('--call', '0.02', '--session', '0.1', '--day', '0.1', '--confirm-above', '0.006')
    limitsBefore = (await bench.run('limits', '--json')).output
  })

  afterAll(async () => {
    await bench.remove()
    await sandbox.stop()
  })

  beforeEach(() => {
    earlier = bench.tap.payments.length
  })

  const payments = () => bench.tap.payments.length - earlier
  /** Starts a server whose person answers each question in the same way. */
  async function startWith(answer: unknown) {
    const questions: Readonly<Record<string, unknown>>[] = []
    const server = bench.start({
      elicit: (params) => {
        questions.push(params)
        return answer as object
      },
    })
    await server.initialize()
    return { server, questions }
  }
  describe('the agreement of a person', () => {
    it('is to one call at one price: the next one is asked about as well', async () => {
      const { server, questions } = await startWith(AGREED)
      for (const prompt of ['One.', 'Two.', 'Three.']) {
        expect((await server.call('chat', dear(prompt))).isError ?? false).toBe(false)
        expect(await server.call('chat', dear(prompt))).toMatchObject({ structuredContent: { model: MODEL } })
      }
      expect(questions).toHaveLength(3)
      expect(payments()).toBe(3)
    })

    it('is not asked for above the limit of a call, and does not lift it', async () => {
      const { server, questions } = await startWith(AGREED)
      expect(await server.call('chat', dear('One.', TOO_DEAR_TOKENS))).toMatchObject(refusedAs('budget_exceeded'))
      expect(questions).toEqual([])
      expect(payments()).toBe(0)
    })

    it('changes no limit, whatever it contains', async () => {
      const content = { agree: true, call: '1000', confirm_above: '1000', limits: { day: '1000' }, pay_to: '0x9' }
      const { server, questions } = await startWith({ action: 'accept', content, _meta: { limits: { call: '1000' } } })
      await server.call('chat', dear('One.'))
      expect(await server.call('chat', dear('Two.', TOO_DEAR_TOKENS))).toMatchObject(refusedAs('budget_exceeded'))
      await server.call('chat', dear('Three.'))
      expect(questions).toHaveLength(2)
    })

    it.each([
      ['nothing', {}],
      ['a form that was not filled in', { action: 'accept' }],
      ['an empty form', { action: 'accept', content: {} }],
      ['a form of another kind', { action: 'accept', content: { confirm: true } }],
      ['a text in place of a tick', { action: 'accept', content: { agree: 'true' } }],
      ['no', { action: 'accept', content: { agree: false } }],
      ['a refusal with a tick', { action: 'decline', content: { agree: true } }],
      ['a cancellation', { action: 'cancel' }],
      ['an unknown action', { action: 'always', content: { agree: true } }],
    ])('is not %s', async (_, answer) => {
      const { server } = await startWith(answer)
      expect(await server.call('chat', dear('One.'))).toMatchObject({
        isError: true,
        structuredContent: { error: { code: expect.stringMatching(/^confirmation_/), money: 'none' } },
      })
      expect(payments()).toBe(0)
    })

    it('cannot be given by a client that cannot ask, which says what the person runs', async () => {
      const server = bench.start()
      await server.initialize()
      const answer = await server.call('chat', dear('One.'))
      expect(answer).toMatchObject(refusedAs('confirmation_required'))
      expect(answer.structuredContent?.error?.advice).toMatch(/farebox limits set --confirm-above/)
      expect(payments()).toBe(0)
    })
  })

  describe('the answer that a client of 2026-07-28 brings with a call', () => {
    const PREFIX = 'io.modelcontextprotocol/'
    const ENVELOPE = {
      [`${PREFIX}protocolVersion`]: '2026-07-28',
      [`${PREFIX}clientInfo`]: { name: 'attacker', version: '1' },
      [`${PREFIX}clientCapabilities`]: { elicitation: { form: {} } },
    }
    const AGREEMENT = { agreement: AGREED }
    let server: McpProcess
    beforeEach(() => {
      server = bench.start()
    })

    async function send(args: object, extra: object = {}): Promise<ToolAnswer & { readonly requestState?: string }> {
      const params = { name: 'chat', arguments: args, _meta: ENVELOPE, ...extra }
      return toolAnswer(await server.request('tools/call', params))
    }

    it('counts for the call that was asked about only', async () => {
      const { requestState } = await send(dear('One.'))
      expect(isQuestion(await send(dear('Two.'), { requestState, inputResponses: AGREEMENT }))).toBe(true)
      expect(payments()).toBe(0)
      const paid = await send(dear('One.'), { requestState, inputResponses: AGREEMENT })
      expect(paid).toMatchObject({ structuredContent: { model: MODEL } })
      expect(isQuestion(await send(dear('Three.'), { requestState, inputResponses: AGREEMENT }))).toBe(true)
      expect(payments()).toBe(1)
    })

    it('is worth nothing without a question, or with a state that the server did not make', async () => {
      const { requestState = '' } = await send(dear('One.'))
      const forged = [
        undefined,
        '',
        'approved',
        `${requestState.slice(0, -2)}AA`,
        requestState.slice(1),
        'x'.repeat(100_000),
      ]
      for (const state of forged) {
        const brought = { ...(state === undefined ? {} : { requestState: state }), inputResponses: AGREEMENT }
        const message = await server.request('tools/call', {
          name: 'chat',
          arguments: dear('One.'),
          _meta: ENVELOPE,
          ...brought,
        })
        expect(message.error !== undefined || isQuestion(message.result as ToolAnswer)).toBe(true)
      }
      expect(payments()).toBe(0)
    })

    it('is worth nothing to a server that was started anew', async () => {
      const { requestState } = await send(dear('One.', DEAR_TOKENS))
      server = bench.start()
      expect(isQuestion(await send(dear('One.'), { requestState, inputResponses: AGREEMENT }))).toBe(true)
      expect(payments()).toBe(0)
    })

    it('cannot be an argument or metadata of the call', async () => {
      const { requestState } = await send(dear('One.'))
      const inArguments = await send({ ...dear('One.'), requestState, inputResponses: AGREEMENT })
      expect(inArguments).toMatchObject({ isError: true })
      const inMeta = { _meta: { ...ENVELOPE, requestState, inputResponses: AGREEMENT } }
      expect(isQuestion(await send(dear('One.'), inMeta))).toBe(true)
      expect(payments()).toBe(0)
    })
  })

  it('has changed no limit after all of that', async () => {
    expect((await bench.run('limits', '--json')).output).toBe(limitsBefore)
  })
})

describe('parallel calls', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  describe('200 calls at once', () => {
    it.each([
      ['of the session of one server', 1, ['--session', '0.05', '--day', '5'], 25n],
      ['of the day over four servers', 4, ['--session', '5', '--day', '0.05'], 25n],
      ['of each session of four servers', 4, ['--session', '0.02', '--day', '5'], 40n],
      ['of the day of one tool over four servers', 4, ['--tool', 'chat', '--day', '0.05'], 25n],
    ] as const)('never pay more than the limit %s', async (_, servers, limits, calls) => {
      const bench = await makeAttackBench(sandbox)
      try {
        await bench.setLimits(...limits)
        const refused = await callAtOnce(bench, servers)
        expect(new Set(refused)).toEqual(new Set(['budget_exceeded']))
        const moved = await bench.moved()
        expect(violations(moved, { call: PRICE, total: calls * PRICE }, sandbox.info)).toEqual([])
        expect(spent(moved)).toBe(BigInt(CALLS - refused.length) * PRICE)
        expect(spent(moved)).toBe(calls * PRICE)
        // No signature beyond the limit is out there either.
        expect(BigInt(moved.payments.length)).toBe(calls)
      } finally {
        await bench.remove()
      }
    })

    it('are all paid where the limits have room for them: the counts above can fail', async () => {
      const bench = await makeAttackBench(sandbox)
      try {
        await bench.setLimits('--session', '5', '--day', '5')
        expect(await callAtOnce(bench, 2)).toEqual([])
        expect(spent(await bench.moved())).toBe(BigInt(CALLS) * PRICE)
      } finally {
        await bench.remove()
      }
    })
  })

  describe('200 calls of the hosted server at once', () => {
    const chat = { model: MODEL, messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 20 }

    it('with one payment are charged once, and all results are equal', async () => {
      const { rpcUrl, network, baseUrl } = sandbox.info
      const payer = await createPayer(rpcUrl, { approved: true })
      const signer = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
      const call = await signHosted(baseUrl, signer, 'chat', chat)
      const answers = await Promise.all(
        Array.from({ length: CALLS }, () => payHosted(baseUrl, call).catch((error: unknown) => error as Error)),
      )
      const results = answers.flatMap((answer) =>
        answer instanceof Error || answer.isError === true ? [] : JSON.stringify(answer.structuredContent),
      )
      expect(results.length).toBeGreaterThan(0)
      expect(new Set(results).size).toBe(1)
      expect(spent({ outflows: await outflowsOf(sandbox, payer.address) })).toBe(PRICE)
      expect(await sandbox.sql('SELECT 1 FROM jobs WHERE payer = $1', [payer.address])).toHaveLength(1)
    })

    it('without a payment begin nothing', async () => {
      const jobs = await sandbox.added('jobs')
      await Promise.allSettled(Array.from({ length: CALLS }, () => callHosted(sandbox.info.baseUrl, 'chat', chat)))
      expect(await sandbox.added('jobs')).toBe(jobs)
    })
  })
})

describe('a server without a wallet, a service or a usable one', () => {
  let sandbox: SharedSandbox
  let bench: AttackBench
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    bench = await makeAttackBench(sandbox)
  })
  afterAll(async () => {
    await bench.remove()
    await sandbox.stop()
  })
  const withSettings = async (change: Record<string, string | undefined>) => {
    const environment = Object.fromEntries(
      Object.entries({ ...bench.environment, ...change }).filter(([, value]) => value !== undefined),
    ) as Record<string, string>
    const started = bench.start({ environment })
    await started.initialize()
    return await started.call('chat', { prompt: 'Hello.' })
  }

  it.concurrent.each([
    ['no wallet', { FAREBOX_KEY_FILE: undefined }],
    ['no service', { FAREBOX_URL: undefined }],
    ['a service that is not there', { FAREBOX_URL: 'http://127.0.0.1:9' }],
    ['a service that is no URL', { FAREBOX_URL: 'farebox' }],
    ['a key that is none', { FAREBOX_KEY_FILE: undefined, FAREBOX_PRIVATE_KEY: '0x12' }],
  ])('lists its tools and refuses calls with what to do: %s', async (_, change) => {
    const answer = await withSettings(change)
    const { error } = answer.structuredContent ?? {}
    expect(answer).toMatchObject({ isError: true, structuredContent: { error: { money: 'none' } } })
    expect(error?.advice).toMatch(/\w/)
  })
})
