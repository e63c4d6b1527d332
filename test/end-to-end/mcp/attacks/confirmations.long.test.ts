import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'
import { type McpProcess, type ToolAnswer, toolAnswer } from './support/mcp-process.ts'

const MODEL = 'textmodel-2.5-flash'
/** Above the price that needs a person's agreement, and above the limit of a call. */
const [DEAR_TOKENS, TOO_DEAR_TOKENS] = [4000, 8000]

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

const dear = (prompt: string, tokens = DEAR_TOKENS) => ({ prompt, model: MODEL, max_tokens: tokens })
const payments = () => bench.tap.payments.length - earlier
const refusedAs = (code: string) => ({ isError: true, structuredContent: { error: { code, money: 'none' } } })

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

const isQuestion = (answer: ToolAnswer) => JSON.stringify(answer).includes('"inputRequests"')

const AGREED = { action: 'accept', content: { agree: true } }

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
