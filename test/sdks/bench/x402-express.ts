import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { UptoEvmScheme } from '@x402/evm/upto/server'
import { paymentMiddleware, setSettlementOverrides, x402ResourceServer } from '@x402/express'
import express, { type Request, type Response } from 'express'
import { z } from 'zod'
import { percentile } from '../../bench/measuring/statistics.ts'
import { createSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'

/**
 * A stock integration of a paid chat: express with the official middleware and the official facilitator in the same process. It
 * quotes a fixed maximum, calls the upstream for each verified request, and charges the reported usage. It has no ledger, no queue
 * and no idempotency keys. The price of a recording follows from its length, for which ffmpeg decodes it on every request; nothing
 * transcribes it.
 *
 * `GET /_timings` returns the median milliseconds of its parts since the previous request.
 */
const environment = z
  .object({
    PORT: z.coerce.number(),
    RPC_URL: z.url(),
    SETTLEMENT_PRIVATE_KEY: z.templateLiteral(['0x', z.string()]),
    PAY_TO: z.string(),
    USDC: z.string(),
    NETWORK: z.templateLiteral(['eip155:', z.string()]),
    UPSTREAM_URL: z.url(),
    UPSTREAM_API_KEY: z.string(),
    /** Decodes recordings; empty without ffmpeg. */
    FFMPEG_PATH: z.string(),
  })
  .parse(process.env)

const MAXIMUM_ATOMIC = '5034'
const ROUTE = '/v1/chat/completions'
const RECORDINGS_ROUTE = '/v1/audio/transcriptions'
/** Of speechvendor/scribe-v2: 0.122 USD an hour. */
const ATOMIC_PER_SECOND = 122_000 / 3600
/** 25 MiB as Base64, and the other fields. */
const LARGEST_BODY = '36mb'

const chatSchema = z.object({ messages: z.array(z.object({ content: z.string() })), max_tokens: z.number() })
const recordingSchema = z.object({ audio_base64: z.string() })
const answerSchema = z.object({
  candidates: z.array(z.object({ content: z.object({ parts: z.array(z.object({ text: z.string() })) }) })),
  usageMetadata: z.object({ promptTokenCount: z.number(), candidatesTokenCount: z.number() }),
})

const timings = new Map<string, number[]>()

/** Wraps `work` so that the duration of each call is recorded. */
function timed<Parameters extends unknown[], Result>(
  name: string,
  work: (...parameters: Parameters) => Promise<Result>,
): (...parameters: Parameters) => Promise<Result> {
  return async (...parameters) => {
    const startedAt = performance.now()
    const result = await work(...parameters)
    timings.set(name, [...(timings.get(name) ?? []), performance.now() - startedAt])
    return result
  }
}

const facilitator = createSdkFacilitator(environment.RPC_URL, environment.SETTLEMENT_PRIVATE_KEY)
const server = new x402ResourceServer({
  verify: timed('verify', (payload, requirements) => facilitator.verify(payload, requirements)),
  settle: timed('settle', (payload, requirements) => facilitator.settle(payload, requirements)),
  getSupported: async () => facilitator.getSupported() as never,
}).register(environment.NETWORK, new UptoEvmScheme())

const callUpstream = timed('upstream', async (chat: z.infer<typeof chatSchema>) => {
  const answer = await fetch(`${environment.UPSTREAM_URL}/v1beta/models/gemini-2.5-flash:generateContent`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-goog-api-key': environment.UPSTREAM_API_KEY },
    body: JSON.stringify({
      contents: chat.messages.map(({ content }) => ({ role: 'user', parts: [{ text: content }] })),
      generationConfig: { maxOutputTokens: chat.max_tokens },
    }),
  })
  return answerSchema.parse(await answer.json())
})

const priced = (amount: string) => ({
  amount,
  asset: environment.USDC,
  extra: { name: 'USD Coin', version: '2' },
})
const accepted = {
  scheme: 'upto',
  network: environment.NETWORK,
  payTo: environment.PAY_TO,
  maxTimeoutSeconds: 900,
} as const

const app = express()
app.use(express.json({ limit: LARGEST_BODY }))
app.get('/_timings', (_, response) => {
  response.json(Object.fromEntries([...timings].map(([name, values]) => [name, percentile(values, 0.5)])))
  timings.clear()
})
app.use(
  paymentMiddleware(
    {
      [`POST ${ROUTE}`]: {
        accepts: { ...accepted, price: priced(MAXIMUM_ATOMIC) },
        description: 'One chat completion',
        mimeType: 'application/json',
      },
      [`POST ${RECORDINGS_ROUTE}`]: {
        accepts: {
          ...accepted,
          price: async ({ adapter }) => {
            const { audio_base64: encoded } = recordingSchema.parse(adapter.getBody?.())
            return priced(String(Math.ceil((await decodedSeconds(Buffer.from(encoded, 'base64'))) * ATOMIC_PER_SECOND)))
          },
        },
        description: 'The text of a recording',
        mimeType: 'application/json',
      },
    },
    server,
  ),
)
app.post(ROUTE, (request, response) => answerChat(request, response))
app.listen(environment.PORT, '127.0.0.1', () => console.log('listening'))

/** Decodes a recording and returns its length, as ffmpeg reports it at the end. */
async function decodedSeconds(audio: Uint8Array): Promise<number> {
  const options = ['-v', 'error', '-nostats', '-progress', 'pipe:1', '-i', 'pipe:0', '-f', 'null', '-']
  const ffmpeg = spawn(environment.FFMPEG_PATH, options, { stdio: ['pipe', 'pipe', 'inherit'] })
  ffmpeg.stdin.end(audio)
  const microseconds = [...(await text(ffmpeg.stdout)).matchAll(/^out_time_us=(\d+)$/gm)].at(-1)?.[1]
  return Number(microseconds) / 1_000_000
}

async function answerChat(request: Request, response: Response): Promise<void> {
  const { candidates, usageMetadata: usage } = await callUpstream(chatSchema.parse(request.body))
  // Prices of textmodel-2.5-flash: 0.30 and 2.50 USD per million tokens.
  const charge = Math.ceil((usage.promptTokenCount * 30 + usage.candidatesTokenCount * 250) / 100)
  setSettlementOverrides(response, { amount: String(Math.max(1, charge)) })
  const content = candidates[0]?.content.parts.map(({ text }) => text).join('')
  response.json({
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: usage.promptTokenCount, completion_tokens: usage.candidatesTokenCount },
  })
}
