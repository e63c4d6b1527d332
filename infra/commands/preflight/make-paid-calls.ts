import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { x402Client, x402HTTPClient } from '@x402/core/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { privateKeyToAccount } from 'viem/accounts'
import { z } from 'zod'
import { CHAIN_ID } from '#shared/chain/network/contracts.ts'
import { atomicAmount, atomicFromDollars, dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import { privateKey } from '#shared/payment/account-settings.ts'
import { type Call, makePaidCall, type PaidCall } from '../../paid-call.ts'
import { attempted } from './attempted.ts'
import { problemsOfReceipt } from './check-receipt.ts'
import type { Environment } from './check-settings.ts'
import { type Check, failed, passed } from './check.ts'
import { fetchJson } from './fetch-json.ts'

const SAMPLE = fileURLToPath(new URL('../../sandbox/samples/last-tram.mp3', import.meta.url))

const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), supported_endpoints: z.array(z.string()) })),
})
const voicesSchema = z.object({ data: z.array(z.object({ id: z.string(), models: z.array(z.string()) })) })

export interface PaidCallOptions {
  readonly baseUrl: string
  readonly rpcUrl: string
  readonly spendAtMostUsd: string
}

/** Makes one paid call of each endpoint that offers a model, one after the other, and verifies each receipt. */
export async function makePaidCalls(options: PaidCallOptions, environment: Environment): Promise<readonly Check[]> {
  const key = privateKey.safeParse(environment['PREFLIGHT_PAYER_PRIVATE_KEY'] ?? '')
  if (!key.success) return [failed('paid calls', `PREFLIGHT_PAYER_PRIVATE_KEY ${key.error.issues[0]?.message}`)]
  const sign = createSigner(key.data, options.rpcUrl)
  const budget = createBudget(options.spendAtMostUsd)
  const checks: Check[] = []
  for (const [path, makeBody] of Object.entries(CALLS))
    checks.push(
      ...(await attemptedCall(path, async () => {
        const model = await findModel(options.baseUrl, path)
        if (model === null) return [failed(path, 'no model is offered for this endpoint')]
        const call: Call = { path, body: await makeBody(model, options.baseUrl) }
        const paid = await makePaidCall({ baseUrl: options.baseUrl, sign, approve: budget }, call)
        return [passed(path, describe(model, paid)), await checkReceipt(path, paid, options)]
      })),
    )
  return checks
}

type MakeBody = (model: string, baseUrl: string) => Promise<Call['body']>

const text: MakeBody = async (model) => ({
  model,
  max_tokens: 400,
  messages: [{ role: 'user', content: 'Say in one short sentence what a farebox does.' }],
})

const CALLS: Readonly<Record<string, MakeBody>> = {
  '/v1/chat/completions': text,
  '/v1/messages': text,
  '/v1/images/generations': async (model) => ({ model, prompt: 'A tram at night, seen from the stop' }),
  '/v1/audio/speech': async (model, baseUrl) => {
    const { data } = voicesSchema.parse((await fetchJson(`${baseUrl}/v1/audio/voices`)).body)
    return { model, input: 'Mind the step.', voice: data.find(({ models }) => models.includes(model))?.id }
  },
  '/v1/audio/transcriptions': async (model) => {
    const form = new FormData()
    form.set('model', model)
    form.set('file', new Blob([new Uint8Array(await readFile(SAMPLE))], { type: 'audio/mpeg' }), 'last-tram.mp3')
    return form
  },
}

async function attemptedCall(path: string, work: () => Promise<readonly Check[]>): Promise<readonly Check[]> {
  let checks: readonly Check[] = []
  const problem = await attempted(path, 'the paid call failed', async () => {
    checks = await work()
    return passed(path, '')
  })
  return problem.outcome === 'failed' ? [problem] : checks
}

function createSigner(key: `0x${string}`, rpcUrl: string): (challenge: Response) => Promise<Record<string, string>> {
  const client = new x402Client().register(
    `eip155:${CHAIN_ID}`,
    new UptoEvmScheme(privateKeyToAccount(key), { rpcUrl }),
  )
  const http = new x402HTTPClient(client)
  return async (challenge) => {
    const required = http.getPaymentRequiredResponse((name) => challenge.headers.get(name))
    return http.encodePaymentSignatureHeader(await http.createPaymentPayload(required))
  }
}

/** Returns a function that throws once the maxima of all calls would exceed the limit. */
function createBudget(spendAtMostUsd: string): (maximum: bigint) => void {
  let left: bigint = atomicFromDollars(spendAtMostUsd)
  return (maximum) => {
    if (maximum > left)
      throw new Error(
        `its maximum of ${dollarsFromAtomic(atomicAmount(maximum))} USDC exceeds what --spend-at-most leaves; nothing was signed`,
      )
    left -= maximum
  }
}

async function findModel(baseUrl: string, path: string): Promise<string | null> {
  const { data } = modelsSchema.parse((await fetchJson(`${baseUrl}/v1/models`)).body)
  return data.find(({ supported_endpoints: endpoints }) => endpoints.includes(path))?.id ?? null
}

function describe(model: string, { charge, maximum, transaction }: PaidCall): string {
  const [charged, authorized] = [charge, maximum].map((amount) => dollarsFromAtomic(atomicAmount(amount)))
  return `${model}: charged ${charged} of at most ${authorized} USDC\n${transaction}`
}

async function checkReceipt(path: string, paid: PaidCall, { baseUrl, rpcUrl }: PaidCallOptions): Promise<Check> {
  const { receiptId, receiptToken } = paid
  const problems = await problemsOfReceipt({ baseUrl, rpcUrl, receiptId, receiptToken })
  return problems.length === 0
    ? passed(path, `receipt ${receiptId} verified`)
    : failed(path, `receipt ${receiptId}: ${problems.join('; ')}`)
}
