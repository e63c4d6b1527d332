import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { type RecordingVendor, startRecordingVendor } from '../../support/http/recording-vendor.ts'
import { describePassedThrough } from '../../support/json/passed-through.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

// At least 10,800 values a dialect, vendor and direction.
describePassedThrough(1200)

/** What JavaScript would change: the order of these names, and every number. */
const SCHEMA =
  '{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"type":"string"},"2":{"enum":[1.0,9007199254740993]},"1":{"enum":[0.12345678901234567890123]}},"required":["reasoning","answer"],"additionalProperties":false}'
const INPUT = '{"z":[],"id":9007199254740993,"10":1.50,"9":null,"text":"é"}'

const MODELS = {
  'openai-compatible': 'textmodel-2.5-flash',
  gemini: 'textmodel-2.5-pro',
  anthropic: 'textmodel-3.5-flash',
} as const
type Vendor = keyof typeof MODELS

/** The one model of each vendor's deployment, by its name. */
const SERVED: Readonly<Record<string, string>> = {
  'open-text': MODELS['openai-compatible'],
  'gemini-2.5-pro': MODELS.gemini,
  anthropic: MODELS.anthropic,
}
const isTextModel = (id: string) => id.startsWith('textmodel-') && !id.endsWith('-image')

const ANSWERS: Record<Vendor, string> = {
  'openai-compatible': `{"id":"c1","choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"look_up","arguments":${JSON.stringify(INPUT)}}}]}}],"usage":{"prompt_tokens":30,"completion_tokens":9}}`,
  gemini: `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"functionCall":{"name":"look_up","args":${INPUT}}}]}}],"usageMetadata":{"promptTokenCount":30,"candidatesTokenCount":9}}`,
  anthropic: `{"id":"msg_1","content":[{"type":"tool_use","id":"t","name":"look_up","input":${INPUT}}],"stop_reason":"tool_use","usage":{"input_tokens":30,"output_tokens":9}}`,
}

const chatBody = (model: string, schema = SCHEMA) => `{"model":"${model}","max_tokens":512,
  "tools":[{"type":"function","function":{"name":"look_up","parameters":${schema}}}],
  "messages":[{"role":"user","content":"Look it up."},
    {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"look_up","arguments":${JSON.stringify(INPUT)}}}]},
    {"role":"tool","tool_call_id":"a","content":"Nothing."}]}`
const messagesBody = (model: string, input = INPUT) => `{"model":"${model}","max_tokens":512,
  "tools":[{"name":"look_up","input_schema":${SCHEMA}}],
  "messages":[{"role":"user","content":"Look it up."},
    {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look_up","input":${input}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"Nothing."}]}]}`

describe('a paid call over HTTP', () => {
  let sandbox: TestSandbox
  let vendor: RecordingVendor

  beforeAll(async () => {
    vendor = await startRecordingVendor()
    sandbox = await startTestSandbox({
      connections: (real) => Promise.resolve({ ...real, upstreamUrl: vendor.url }),
      deployments: ({ deployments }) => ({
        deployments: deployments.flatMap((deployment) => {
          if (!deployment.serves.some(isTextModel)) return [deployment]
          const model = SERVED[deployment.name]
          return model === undefined ? [] : [{ ...deployment, serves: [model] }]
        }),
      }),
    })
  })
  afterAll(async () => {
    await sandbox.stop()
    await vendor.stop()
  })

  async function send(path: string, key: string, body: string, headers: Readonly<Record<string, string>> = {}) {
    const answer = await fetch(`${sandbox.info.baseUrl}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': key, ...headers },
      body,
    })
    return { answer, text: await answer.clone().text() }
  }

  async function pay(path: string, body: string) {
    const key = randomUUID()
    const { answer } = await send(path, key, body)
    const paid = await send(path, key, body, await sandbox.payer.sign(answer))
    expect(paid).toMatchObject({ answer: { status: 200 } })
    return { result: paid.text, received: vendor.bodies.at(-1) ?? '' }
  }

  test.each(Object.keys(MODELS) as Vendor[])('of both dialects passes through %s as it was written', async (name) => {
    vendor.answerWith(ANSWERS[name])
    const asText = name === 'openai-compatible'
    const inBody = asText ? JSON.stringify(INPUT) : INPUT
    const chat = await pay('/v1/chat/completions', chatBody(MODELS[name]))
    expect(chat.received).toContain(SCHEMA)
    expect(chat.received).toContain(inBody)
    expect(chat.result).toContain(`"arguments":${JSON.stringify(INPUT)}`)
    const message = await pay('/v1/messages', messagesBody(MODELS[name]))
    expect(message.received).toContain(SCHEMA)
    expect(message.received).toContain(inBody)
    expect(message.result).toContain(`"input":${INPUT}`)
  })

  it('of an agent through the hosted tools does so, too', async () => {
    const body = chatBody(MODELS['openai-compatible'])
    const message = (meta: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat","arguments":${body},"_meta":${meta}}}`
    const call = async (meta: string) => {
      const answer = await fetch(`${sandbox.info.baseUrl}/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: message(meta),
      })
      const text = await answer.text()
      const json = text.startsWith('{') ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? '')
      return JSON.parse(json) as {
        result: { structuredContent: Record<string, unknown>; _meta: Record<string, unknown> }
      }
    }
    vendor.answerWith(ANSWERS['openai-compatible'])
    const { result: challenge } = await call('{}')
    const payment = await sandbox.payer.sign(
      new Response(null, {
        status: 402,
        headers: {
          'payment-required': Buffer.from(JSON.stringify(challenge.structuredContent)).toString('base64'),
        },
      }),
    )
    const [header = ''] = Object.values(payment)
    const paid = await call(`{"x402/payment":${Buffer.from(header, 'base64').toString()}}`)
    expect(JSON.stringify(paid.result.structuredContent)).toContain(`"arguments":${JSON.stringify(INPUT)}`)
    expect(vendor.bodies.at(-1)).toContain(SCHEMA)
  })

  it('is another request when the last digit of a large number differs', async () => {
    const key = randomUUID()
    const path = '/v1/messages'
    const first = await send(path, key, messagesBody(MODELS.gemini))
    expect(first.answer.status).toBe(402)
    const other = messagesBody(MODELS.gemini, INPUT.replace('9007199254740993', '9007199254740992'))
    expect((await send(path, key, other)).answer.status).toBe(409)
    const respelled = messagesBody(
      MODELS.gemini,
      '{"text":"\\u00e9", "id":9007199254740993, "z":[ ],"9":null,"10":1.5}',
    )
    expect((await send(path, key, respelled)).answer.status).toBe(402)
  })

  it('is executed as the signed retry spells it, and refused when it spells numbers longer than what was priced', async () => {
    vendor.answerWith(ANSWERS.gemini)
    const key = randomUUID()
    const path = '/v1/messages'
    const { answer } = await send(path, key, messagesBody(MODELS.gemini, '{"a":1,"b":2}'))
    const payment = await sandbox.payer.sign(answer)
    const longer = await send(path, key, messagesBody(MODELS.gemini, `{"a":1.${'0'.repeat(1000)},"b":2}`), payment)
    expect(longer.answer.status).toBe(409)
    expect(longer.text).toContain('written longer')
    const paid = await send(path, key, messagesBody(MODELS.gemini, '{"b":2,"a":1}'), payment)
    expect(paid.answer.status).toBe(200)
    expect(vendor.bodies.at(-1)).toContain('"args":{"b":2,"a":1}')
  })
})
