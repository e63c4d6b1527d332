import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { main as archive } from '../../../infra/commands/archive.ts'
import { main as ledger } from '../../../infra/commands/ledger.ts'
import { main as resolve } from '../../../infra/commands/resolve.ts'
import { main as verifyReceipt } from '../../../infra/commands/verify-receipt.ts'
import { makeOld, NEXT_MONTH, OLD_MONTH } from '../../support/ledger/old-calls.ts'
import { type PaidCall, payForCall } from '../../support/payer/paid-call.ts'
import { signInChallengeOf, signInHeader } from '../../support/payer/sign-in.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const PATH = '/v1/messages'
const request = (content: string) => ({
  model: 'textmodel-3.5-flash',
  messages: [{ role: 'user', content }],
  max_tokens: 16,
})

let sandbox: TestSandbox
let calls: readonly PaidCall[]
let environment: Readonly<Record<string, string>>
beforeAll(async () => {
  sandbox = await startTestSandbox()
  const paid: PaidCall[] = []
  for (const content of ['one', 'two', 'three']) paid.push(await payForCall(sandbox, PATH, request(content)))
  calls = paid
  const { databaseUrl, rpcUrl } = sandbox.info
  environment = {
    DATABASE_URL: databaseUrl,
    RPC_URL: rpcUrl,
    OBJECT_STORE_DIRECTORY: join(sandbox.directory, 'uploads'),
  }
  await makeOld(
    sandbox,
    (await sandbox.sql<{ id: string }>('SELECT id FROM jobs')).map(({ id }) => id),
  )
})
afterAll(() => sandbox.stop())

function readReceipt({ answer }: PaidCall): Promise<Response> {
  const headers = { authorization: `Bearer ${answer.headers.get('x-receipt-token')}` }
  return fetch(`${sandbox.info.baseUrl}/v1/receipts/${answer.headers.get('x-receipt-id')}`, { headers })
}

/** Reads a page of the wallet's account. */
async function readAccount(path: string): Promise<string> {
  const url = `${sandbox.info.baseUrl}/v1/account/${path}`
  const account = privateKeyToAccount(sandbox.info.payer.privateKey)
  const challenge = signInChallengeOf(await fetch(url))
  const answer = await fetch(url, { headers: { 'sign-in-with-x': await signInHeader(challenge, account) } })
  expect(answer.status).toBe(200)
  return await answer.text()
}

/** What callers and operators see of the calls. */
async function readEverything() {
  const period = ['--from', `${OLD_MONTH}-01T00:00:00Z`, '--json']
  const report = await callCommand(() => ledger(period, environment))
  return {
    receipts: await Promise.all(calls.map(async (call) => await (await readReceipt(call)).text())),
    account: await readAccount('receipts?limit=2'),
    spend: await readAccount(`spend?from=${OLD_MONTH}-01&to=${OLD_MONTH}-31&format=csv`),
    replays: await Promise.all(
      calls.map(async (call) => {
        const replay = await call.repeat()
        const { error } = (await replay.json()) as { error: object }
        return [replay.status, replay.headers.get('x-receipt-id'), error]
      }),
    ),
    ledger: [report.exitCode, withoutTimes(report.output)],
    resolve: await callCommand(() => resolve(['list'], environment)),
  }
}

/** The end of the period is the time of the report. */
const withoutTimes = (json: string) => json.replaceAll(/"to": "[^"]*"/g, '')

describe('a service whose calls are archived', () => {
  it('shows callers and operators what it did before, byte for byte, and verifies', async () => {
    const before = await readEverything()
    expect(before.replays).toEqual(
      calls.map(({ answer }) => [
        410,
        answer.headers.get('x-receipt-id'),
        expect.objectContaining({ payment: 'settled' }),
      ]),
    )
    expect(before.ledger[0]).toBe(0)
    const run = await callCommand(() => archive(['--before', NEXT_MONTH], environment))
    expect([run.exitCode, run.errors, run.output]).toEqual([0, '', expect.stringContaining('3 calls in 1 objects')])
    expect(await readEverything()).toEqual(before)
    const [{ answer } = {}] = calls
    const named = ['--url', sandbox.info.baseUrl, '--rpc', sandbox.info.rpcUrl]
    const receipt = [
      '--id',
      answer?.headers.get('x-receipt-id') ?? '',
      '--token',
      answer?.headers.get('x-receipt-token') ?? '',
    ]
    const verified = await callCommand(() => verifyReceipt([...named, ...receipt]))
    expect([verified.exitCode, verified.errors]).toEqual([0, ''])
  })

  it('binds the key of an archived call to nothing else, and charges nobody for it again', async () => {
    const [{ answer } = {}] = calls
    const [row] = await sandbox.sql<{ idempotency_key: string }>(
      'SELECT idempotency_key FROM jobs WHERE receipt_id = $1',
      [answer?.headers.get('x-receipt-id')],
    )
    const other = await sandbox.post(PATH, request('another'), { idempotencyKey: row?.idempotency_key ?? '' })
    expect([other.status, await other.json()]).toMatchObject([409, { error: { code: 'idempotency_key_reused' } }])
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(calls.length)
  })

  it('takes new calls, and answers 503 for archived receipts only, while the archive is away', async () => {
    const folder = join(sandbox.directory, 'uploads')
    // Another process has none of the objects in memory.
    process.kill(sandbox.pidOf('api'), 'SIGKILL')
    await sandbox.restart('api')
    await rename(join(folder, 'archive'), join(folder, 'away'))
    const paid = await payForCall(sandbox, PATH, request('four'))
    expect((await readReceipt(paid)).status).toBe(200)
    const [call] = calls
    if (!call) throw new Error('no call')
    const missing = await readReceipt(call)
    expect([missing.status, await missing.json()]).toMatchObject([503, { error: { code: 'receipt_unavailable' } }])
    await rename(join(folder, 'away'), join(folder, 'archive'))
    expect((await readReceipt(call)).status).toBe(200)
  })
})
