import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { decodePaymentRequiredHeader, decodePaymentResponseHeader } from '@x402/core/http'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { catalogOf } from '../../support/payer/paid-call.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const SENT_AT_ONCE = 4
const chat = () => ({ model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Good evening.' }] })
/** Where programs resolve the repository's packages. */
const PROGRAMS = fileURLToPath(new URL('../../../node_modules/.cache/farebox-readme', import.meta.url))
interface ProgramOfPages {
  readonly answer: { readonly choices: unknown[] }
  readonly stored: Response
}
/** Runs the first programs of the README and of CALLING.md as they stand there, and returns their variables. */
async function runProgramOfPages(variables: Record<string, string>): Promise<ProgramOfPages> {
  const programs = await Promise.all(
    ['README.md', 'CALLING.md'].map(async (name) => {
      const page = await readFile(new URL(`../../../${name}`, import.meta.url), 'utf8')
      return /```ts\n(?<program>[\s\S]*?)```/.exec(page)?.groups?.['program'] ?? ''
    }),
  )
  const given = Object.entries(variables).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`)
  const path = join(PROGRAMS, `${randomUUID()}.mjs`)
  await mkdir(PROGRAMS, { recursive: true })
  await writeFile(path, [...given, ...programs, 'export { answer, stored }'].join('\n'))
  try {
    return (await import(pathToFileURL(path).href)) as ProgramOfPages
  } finally {
    await rm(path)
  }
}

describe('a paid transcription', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  async function signTranscription(idempotencyKey = randomUUID()) {
    const challenge = await sandbox.transcribe({ idempotencyKey })
    return { idempotencyKey, challenge, headers: await sandbox.payer.sign(challenge) }
  }
  test('answers an unpaid request with the specified 402 and calls no vendor [spec S6a, L2, L3b, T1, F2]', async () => {
    const answer = await sandbox.transcribe()
    expect(answer.status).toBe(402)
    const required = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
    expect(required.x402Version).toBe(2)
    expect(required.accepts).toMatchObject([
      {
        scheme: 'upto',
        network: 'eip155:8453',
        amount: '5034',
        asset: sandbox.info.usdc.toLowerCase(),
        payTo: sandbox.info.payTo.toLowerCase(),
      },
    ])
    expect(required.extensions).toHaveProperty('eip2612GasSponsoring')
    expect(await answer.json()).toMatchObject({
      error: 'Payment Required',
      message: expect.stringMatching(/./),
      price: { amount: '0.005034', currency: 'USDC', type: 'maximum' },
      paymentInfo: { x402Version: 2, scheme: 'upto', network: 'eip155:8453', asset: sandbox.info.usdc.toLowerCase() },
    })
    expect(await sandbox.upstreamCalls()).toEqual([])
  })

  test('a payer without gas and allowance pays exactly the charge and receives the transcript with a receipt [spec L7a, R22, T3, A1b, V3b, O1]', async () => {
    const before = await sandbox.chain.usdcBalance(sandbox.payer.address)
    const { idempotencyKey, headers } = await signTranscription()
    const answer = await sandbox.transcribe({ idempotencyKey, headers })
    expect(answer.status).toBe(200)
    for (const name of ['x-receipt-id', 'x-request-id'])
      expect([name, answer.headers.get(name)]).toEqual([name, expect.stringMatching(UUID)])
    expect(answer.headers.get('x-receipt-token')).toMatch(/^k\d+\.[\w-]{43}$/)
    expect(answer.headers.get('x-catalog-version')).toBe(
      (await catalogOf(sandbox.info.baseUrl, 'pricing')).catalog_version,
    )
    expect(await answer.json()).toMatchObject({
      model: 'speechvendor/scribe-v2',
      text: expect.stringContaining('I am the farebox'),
      usage: { input_audio_ms: expect.any(Number) },
    })
    expect(before - (await sandbox.chain.usdcBalance(sandbox.payer.address))).toBe(5034n)

    const payment = decodePaymentResponseHeader(answer.headers.get('payment-response') ?? '')
    const receipt = await fetch(`${sandbox.info.baseUrl}/v1/receipts/${answer.headers.get('x-receipt-id')}`, {
      headers: { authorization: `Bearer ${answer.headers.get('x-receipt-token')}` },
    })
    expect(await receipt.json()).toMatchObject({
      id: answer.headers.get('x-receipt-id'),
      charge_atomic: '5034',
      authorized_maximum_atomic: '5034',
      transaction: payment.transaction,
      catalog_version: answer.headers.get('x-catalog-version'),
      payer: sandbox.payer.address.toLowerCase(),
    })
  })

  test('twenty concurrent copies of a signed request make one provider call, one transfer and twenty identical answers', async () => {
    const { idempotencyKey, headers } = await signTranscription()
    const calls = (await sandbox.upstreamCalls()).length
    const transfers = (await sandbox.chain.transfersTo(sandbox.info.payTo)).length
    // Three of them are held, the others are asked to come back.
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        until(async () => {
          const answer = await sandbox.transcribe({ idempotencyKey, headers })
          return answer.status === 503 ? null : answer
        }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1)
    expect(new Set(answers.map((answer) => answer.headers.get('x-receipt-token'))).size).toBe(1)
    expect(await sandbox.upstreamCalls()).toHaveLength(calls + 1)
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(transfers + 1)
  })
})

describe('a lasting allowance', () => {
  let sandbox: SharedSandbox
  let payer: Payer
  let client: PayingClient
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
    const { rpcUrl, network } = sandbox.info
    payer = await createPayer(rpcUrl)
    client = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
  })
  afterAll(() => sandbox.stop())
  function pay(): Promise<Response> {
    return client.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
      body: JSON.stringify(chat()),
    })
  }

  it('the program of the README pays once, and its permit for later calls waits for them', async () => {
    const { rpcUrl, baseUrl } = sandbox.info
    const { privateKey, address } = await createPayer(rpcUrl)
    const { answer, stored } = await runProgramOfPages({ key: privateKey, rpcUrl, baseUrl })
    expect(answer.choices).toHaveLength(1)
    expect(await stored.json()).toMatchObject({ owner: address })
    expect(stored.status).toBe(200)
    expect(await sandbox.sql('SELECT permit_nonce FROM authorizations WHERE payer = $1', [address])).toEqual([
      { permit_nonce: '0' },
    ])
  })

  it('one signature of a wallet without gas lets it pay in parallel, without a transaction of its own', async () => {
    const url = `${sandbox.info.baseUrl}/v1/allowances`
    const described = (await (await fetch(`${url}?owner=${payer.address}`)).json()) as {
      typed_data: { message: object }
    }
    const signature = await payer.account.signTypedData(described.typed_data as never)
    const approve = () =>
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ permit: { ...described.typed_data.message, signature } }),
      })
    const answers = await Promise.all(Array.from({ length: SENT_AT_ONCE }, approve))
    const texts = await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(new Set(texts).size).toBe(1)
    expect(JSON.parse(texts[0] ?? '')).toMatchObject({ allowance: '0', stored_permit: { nonce: '0' } })
    const paid = await Promise.all(Array.from({ length: SENT_AT_ONCE }, pay))
    expect(paid.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    // A permit that was used is a success as well: its allowance is on chain.
    expect(await (await approve()).json()).toMatchObject({ stored_permit: null })
    expect(await sandbox.chain.permit2Allowance(payer.address)).toBeGreaterThan(0n)
    expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
  })
})

describe('retention of a recording', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  async function payForTranscription(idempotencyKey: string) {
    const challenge = await sandbox.transcribe({ idempotencyKey })
    const headers = await sandbox.payer.sign(challenge)
    return { headers, answer: await sandbox.transcribe({ idempotencyKey, headers }) }
  }
  test('answers a replay past the retention with 410 and the id of its receipt, whose token came with the result [spec O36]', async () => {
    const idempotencyKey = randomUUID()
    const { headers, answer } = await payForTranscription(idempotencyKey)
    expect(answer.status).toBe(200)
    await sandbox.sql("UPDATE jobs SET finished_at = now() - interval '8 days' WHERE idempotency_key = $1", [
      idempotencyKey,
    ])
    const erased = () =>
      sandbox.sql('SELECT 1 FROM jobs WHERE idempotency_key = $1 AND result_body IS NULL', [idempotencyKey])
    await expect.poll(erased).toHaveLength(1)

    const replay = await sandbox.transcribe({ idempotencyKey, headers })
    expect(replay.status).toBe(410)
    expect(await replay.json()).toMatchObject({
      error: { code: 'result_expired', payment: 'settled', retry: 'never' },
    })
    const id = answer.headers.get('x-receipt-id')
    const token = answer.headers.get('x-receipt-token')
    const names = ['x-receipt-id', 'x-receipt-token', 'payment-response']
    expect(names.map((name) => replay.headers.get(name))).toEqual([id, null, null])
    const receipt = await fetch(`${sandbox.info.baseUrl}/v1/receipts/${id}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(receipt.status).toBe(200)
    expect(await sandbox.upstreamCalls()).toHaveLength(1)
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(1)
  })

  test('a finished call leaves no text of its request in the ledger', async () => {
    const secret = `canary ${randomUUID()}`
    const body = { model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: secret }], max_tokens: 16 }
    const idempotencyKey = randomUUID()
    const challenge = await sandbox.post('/v1/chat/completions', body, { idempotencyKey })
    const headers = await sandbox.payer.sign(challenge)
    expect((await sandbox.post('/v1/chat/completions', body, { idempotencyKey, headers })).status).toBe(200)
    const tables = await sandbox.sql<{ name: string }>(
      "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables WHERE schemaname !~ '^pg_|^information'",
    )
    for (const { name } of tables) {
      const rows = await sandbox.sql(`SELECT 1 FROM ${name} AS row WHERE row::text LIKE '%' || $1 || '%'`, [secret])
      expect([name, rows.length]).toEqual([name, 0])
    }
  })
})
