import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

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
