import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createProcessReportStore } from '#shared/adapters/postgres/configuration/process-report-store.ts'
import { readKeyUse } from '#shared/adapters/postgres/reports/key-use.ts'
import { keyFingerprint } from '#shared/operators/key-fingerprint.ts'
import type { ProcessReport } from '#shared/operators/process-report.ts'
import { main } from '../../../infra/commands/keys.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { settlingBatch } from '../../support/ledger/settling-batch.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { newTestBatch, renewalOf, TEST_CONTRACT } from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { callCommand } from '../../support/processes/call-command.ts'

const RECIPIENT = `0x${'c3'.repeat(20)}` as const
const OLD_SECRET = 'c'.repeat(32)

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const report = (instance: string, challengeSecrets: readonly string[]) => {
  const keys: ProcessReport['keys'] = {
    PAY_TO: [RECIPIENT],
    FACILITATOR_ADDRESSES: [],
    CHALLENGE_SECRET: challengeSecrets.map(keyFingerprint),
    RECEIPT_SECRETS: ['k1:aa'],
    RECEIPT_SIGNING_KEY: ['k1:bb'],
  }
  return createProcessReportStore(ledger.pool).writeReport(
    { instance, kind: 'api', startedAt: new Date(Date.now() - 3_600_000) },
    { version: '1', configurationRevision: '1', keys },
  )
}
const keys = (...args: readonly string[]) => callCommand(() => main(args, { DATABASE_URL: ledger.url }))

describe('the use of keys', () => {
  it('counts unfinished calls by the recipient and the key that their payment names, and stored results by secret', async () => {
    const payTo = { authorization: testAuthorization({ payTo: RECIPIENT }) }
    const { facilitator } = payTo.authorization
    await jobInState(ledger, 'accepted', newTestJob(payTo))
    await jobInState(ledger, 'generated')
    await jobInState(ledger, 'failed')
    const before = await readKeyUse(ledger.pool)
    expect(before.jobsByRecipient).toMatchObject({ [RECIPIENT]: 1 })
    expect(Object.values(before.jobsByFacilitator)).toEqual([2])
    expect(before).toMatchObject({ transactionsByFacilitator: {}, resultsByReceiptSecret: {} })
    await jobInState(ledger, 'settling')
    await jobInState(ledger, 'completed')
    const after = await readKeyUse(ledger.pool)
    // A confirmed transaction counts until its block is final.
    expect(after.transactionsByFacilitator).toEqual({ [facilitator]: 2 })
    expect(Object.values(after.resultsByReceiptSecret)).toEqual([1])
    expect(after.jobsByFacilitator).toEqual({ [facilitator]: 3 })
  })

  it('counts no transaction that is final', async () => {
    await ledger.sql("UPDATE settlements SET finalized_at = now() WHERE state = 'confirmed'")
    expect(Object.values((await readKeyUse(ledger.pool)).transactionsByFacilitator)).toEqual([1])
  })

  it('counts a payment for the settlement contract by that, and its transactions by each key that sent one', async () => {
    const [first, second] = [newTestBatch(), newTestBatch()]
    const [moved] = await settlingBatch(ledger, 2, first)
    if (!moved) throw new Error('a job')
    await ledger.settlement.renewBatch([renewalOf(moved.job, moved.settlement)], second)
    const { jobsByFacilitator, transactionsByFacilitator } = await readKeyUse(ledger.pool)
    expect(jobsByFacilitator).toMatchObject({ [TEST_CONTRACT]: 2 })
    expect(transactionsByFacilitator).toMatchObject({
      [first.account.facilitator]: 2,
      [second.account.facilitator]: 1,
    })
  })
})

describe('npm run keys', () => {
  beforeEach(async () => {
    await ledger.sql('DELETE FROM process_reports')
  })

  it('leads through a rotation: one new value, then each step as soon as all processes have made it', async () => {
    await Promise.all(['one', 'two'].map((name) => report(name, [OLD_SECRET])))
    const begun = await keys('rotate', 'challenge', '--reason', 'yearly', '--as', 'ada', '--json')
    expect(begun.exitCode).toBe(0)
    const { value } = JSON.parse(begun.output) as { value: string }
    await report('one', [OLD_SECRET, value])
    const first = await keys('status')
    expect(first).toMatchObject({
      exitCode: 1,
      output: expect.stringContaining('1 of 2 APIs do not accept it yet: two'),
    })
    expect(first.output).toContain('→ 1. Append the new value')
    await report('two', [OLD_SECRET, value])
    expect((await keys('status')).output).toContain('→ 2. Put the new value first')
    await Promise.all(['one', 'two'].map((name) => report(name, [value, OLD_SECRET])))
    expect((await keys('status')).output).toContain('→ 4. Remove the old value')
    await Promise.all(['one', 'two'].map((name) => report(name, [value])))
    const last = await keys('status')
    expect(last).toMatchObject({ exitCode: 0, output: expect.stringContaining('(finished)') })
    // Nothing that the command prints or keeps afterwards contains a secret.
    const actions = await ledger.sql('SELECT operator, action, subject, details::text FROM operator_actions')
    expect(JSON.stringify([first, last, actions])).not.toMatch(new RegExp(`${value}|${OLD_SECRET}`))
    expect(JSON.stringify(actions)).toContain('"operator":"ada","action":"key.rotate","subject":"challenge"')
  })

  it('says what fails calls, with exit code 1, when an API asks for what another one refuses', async () => {
    await report('one', ['d'.repeat(32)])
    await report('two', ['e'.repeat(32)])
    const { exitCode, output } = await keys('status')
    expect([exitCode, output]).toEqual([1, expect.stringContaining('! 1 of 2 APIs do not accept')])
    expect(await keys('rotate', 'challenge', '--reason', 'yearly')).toMatchObject({
      exitCode: 1,
      errors: expect.stringContaining('do not agree on CHALLENGE_SECRET'),
    })
  })

  it('ends with 2 when the database cannot be reached', async () => {
    const url = new URL(ledger.url)
    url.port = '1'
    expect(await callCommand(() => main(['status'], { DATABASE_URL: url.href }))).toMatchObject({ exitCode: 2 })
  })
})

describe('npm run keys with a settlement contract', () => {
  let devnet: TestDevnet
  beforeAll(async () => {
    devnet = await startTestDevnet()
  })
  afterAll(() => devnet.stop())
  beforeEach(() => ledger.sql('DELETE FROM process_reports'))

  it('shows on the chain’s word which keys it lists, and that none of the settlers is', async () => {
    const settler = devnet.accounts.settlement.address.toLowerCase() as `0x${string}`
    const contract = await deployTestContract(devnet, [])
    const reports = createProcessReportStore(ledger.pool)
    await reports.writeReport(
      { instance: 'settler', kind: 'worker', startedAt: new Date() },
      {
        version: '1',
        configurationRevision: '1',
        keys: {
          SETTLEMENT_PRIVATE_KEYS: [settler],
          SETTLEMENT_CONTRACT: [contract.address],
          RECEIPT_SECRET_ID: ['k1'],
        },
      },
    )
    await reports.writeReport(
      { instance: 'api', kind: 'api', startedAt: new Date() },
      {
        version: '1',
        configurationRevision: '1',
        keys: { FACILITATOR_ADDRESSES: [settler], SETTLEMENT_CONTRACT: [contract.address], RECEIPT_SECRETS: ['k1:aa'] },
      },
    )
    const status = () =>
      callCommand(() => main(['status'], { DATABASE_URL: ledger.url, RPC_URL: devnet.rpcUrl, RPC_TIMEOUT_MS: '60000' }))
    const unlisted = await status()
    expect(unlisted.exitCode).toBe(1)
    expect(unlisted.output).toContain(`! ${contract.address} lists none of the settlers' keys`)
    expect(unlisted.output).toContain(`NOT listed in ${contract.address}`)
    await contract.setKey(settler, true)
    const listed = await status()
    expect(listed.output).toMatch(new RegExp(`${settler} .* ETH.*, listed in ${contract.address}`))
    expect(listed.output).not.toContain('lists none')
  })
})
