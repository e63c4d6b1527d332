import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createWalletClient, type Hex, http, parseAbi, parseEther, toHex } from 'viem'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { base } from '#shared/chain/network/base-chain.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import { main } from '../../../infra/commands/ledger/main.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { challengeOf, paymentHeader, signCustomPayment } from '../../support/payer/custom-payment.ts'
import { type PaidCall, payForCall } from '../../support/payer/paid-call.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const COMMAND = 'infra/commands/ledger/main.ts'
/** The worker puts a settlement that is not final back into its block. */
const [FINAL, NOT_FINAL] = ['finalized_at = now()', 'finalized_at = NULL']
const IMAGE = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night.' }
const SPEECH = { model: 'speechvendor/flash-v2.5', input: 'Next stop: the end of the line.', voice: 'talia' }
/** Runs the command as an operator does. */
const run = (programArguments: readonly string[], environment: Record<string, string>) =>
  runCommand(COMMAND, programArguments, { NO_COLOR: '1', ...environment })
/** Calls the command in this process, which is faster. */
const runHere = (programArguments: readonly string[], environment: Record<string, string>) =>
  callCommand(() => main(programArguments, environment))
let sandbox: TestSandbox
let environment: Record<string, string>
beforeAll(async () => {
  sandbox = await startTestSandbox({ settlementContract: false })
  environment = { DATABASE_URL: sandbox.info.databaseUrl, RPC_URL: sandbox.info.rpcUrl }
})
afterAll(() => sandbox.stop())
interface Sum {
  count: number
  totalAtomic: string
}
type Earned = Record<'chargedAtomic' | 'vendorAtomic' | 'gasAtomic' | 'marginAtomic', string>
interface Report {
  margins: { ofModels: (Earned & { withoutVendorCost: number; withoutGas: number })[]; total: Earned }
  period: { from: string; to: string }
  revenue: Sum
  chargesByModel: { model: string; operation: string; count: number; totalAtomic: string }[]
  unchargedFailures: { code: string; count: number }[]
  absorbedCost: Record<string, Sum>
  openExposure: Sum
  reconciliation: {
    ledger: Sum
    chain: Sum
    settling: Sum
    otherTransfers: Sum
    otherPeriods: Sum
    differences: { kind: string; jobId: string | null; transaction: string | null; detail: string }[]
  }
}
async function report(...programArguments: readonly string[]): Promise<Report & { exitCode: number | null }> {
  const { exitCode, output, errors } = await runHere(['--json', ...programArguments], environment)
  if (output === '') throw new Error(errors)
  return { exitCode, ...(JSON.parse(output) as Report) }
}
/** Changes the ledger as an administrator could, without constraints and triggers. */
async function tamper(statement: string): Promise<void> {
  await sandbox.sql(`SET session_replication_role = replica; ${statement}; RESET session_replication_role`)
}
function replaceHash(from: string, to: string): Promise<void> {
  return tamper(`UPDATE settlements SET transaction_hash = '${to}' WHERE transaction_hash = '${from}';
    UPDATE settlement_transactions SET hash = '${to}' WHERE hash = '${from}'`)
}
async function settlementOf(call: PaidCall) {
  const [row] = await sandbox.sql<{ job_id: string; transaction_hash: string; block_number: string }>(
    'SELECT job_id, transaction_hash, block_number FROM settlements JOIN jobs ON jobs.id = job_id WHERE receipt_id = $1',
    [call.answer.headers.get('x-receipt-id')],
  )
  if (!row) throw new Error('the call has no settlement')
  return row
}
async function sendForeignTransfer(valueAtomic: bigint): Promise<void> {
  const { rpcUrl, payTo } = sandbox.info
  const { account } = await createPayer(rpcUrl, { usdcAtomic: valueAtomic, approved: false })
  await callRpc(rpcUrl, 'anvil_setBalance', [account.address, toHex(parseEther('1'))])
  const wallet = createWalletClient({ account, chain: base, transport: http(rpcUrl) })
  const hash = await wallet.writeContract({
    address: DEVNET_ADDRESSES.usdc,
    abi: parseAbi(['function transfer(address to, uint256 value) returns (bool)']),
    functionName: 'transfer',
    args: [payTo, valueAtomic],
  })
  await sandbox.chain.client.waitForTransactionReceipt({ hash })
}
/** Makes an uncharged call whose provider resets the connection, so that its outcome stays unknown. */
async function makeUnknownOutcome(): Promise<void> {
  await sandbox.setFaults([{ fault: 'resetAfterRead' }])
  const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000n, approved: true })
  const idempotencyKey = crypto.randomUUID()
  const required = challengeOf(await sandbox.transcribe({ idempotencyKey }))
  const headers = paymentHeader(await signCustomPayment(required, payer))
  const answer = await sandbox.transcribe({ idempotencyKey, headers })
  expect(answer.status).toBe(503)
  await sandbox.setFaults([])
}
describe('after paid calls of every operation, a failure and a foreign transfer', () => {
  const calls: Record<string, PaidCall> = {}
  let total = 0n
  beforeAll(async () => {
    const messages = [{ role: 'user', content: 'Good evening.' }]
    const text = { model: 'textmodel-3.5-flash', messages, max_tokens: 64 }
    calls['chat'] = await payForCall(sandbox, '/v1/chat/completions', text)
    calls['messages'] = await payForCall(sandbox, '/v1/messages', text)
    calls['image'] = await payForCall(sandbox, '/v1/images/generations', IMAGE)
    calls['speech'] = await payForCall(sandbox, '/v1/audio/speech', SPEECH)
    const transcription = { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') }
    calls['transcription'] = await payForCall(sandbox, '/v1/audio/transcriptions', transcription)
    calls['another'] = await payForCall(sandbox, '/v1/audio/transcriptions', { ...transcription, diarize: true })
    total = Object.values(calls).reduce((sum, { chargedAtomic }) => sum + chargedAtomic, 0n)
    await makeUnknownOutcome()
    await sendForeignTransfer(777n)
  })

  const pick = (name: string): PaidCall => {
    const call = calls[name]
    if (!call) throw new Error(`no call ${name}`)
    return call
  }

  test('reports that ledger and chain agree to the atomic unit, and lists a foreign transfer separately', async () => {
    const transfers = await sandbox.chain.transfersTo(sandbox.info.payTo)
    const ours = transfers.filter(({ valueAtomic }) => valueAtomic !== 777n)
    expect(ours.reduce((sum, { valueAtomic }) => sum + valueAtomic, 0n)).toBe(total)
    const sums = { count: 6, totalAtomic: total.toString() }
    const nothing = { count: 0, totalAtomic: '0' }
    const found = await report()
    expect(found).toMatchObject({
      exitCode: 0,
      revenue: sums,
      openExposure: nothing,
      unchargedFailures: [{ count: 1 }],
      absorbedCost: { ambiguousAttempts: { count: 1, totalAtomic: '5034' } },
      unchargedWork: {
        byKind: [{ kind: 'unknown_outcome', count: 1, totalAtomic: '5034' }],
        byPayer: { count: 1, totalAtomic: '5034', payers: 1 },
      },
      newPayers: { openAtomic: '0', owedOrUnchargedAtomic: '5034' },
      reconciliation: {
        ledger: sums,
        chain: sums,
        settling: nothing,
        otherPeriods: nothing,
        otherTransfers: { count: 1, totalAtomic: '777' },
        differences: [],
      },
    })
    expect(found.chargesByModel.map(({ count }) => count).reduce((sum, count) => sum + count, 0)).toBe(6)
    expect(found.chargesByModel).toHaveLength(5)
  })

  test('shows what was charged, what vendors and gas took of it, and what is left, summed to the atomic unit', async () => {
    const { margins } = await report()
    const amounts = ['chargedAtomic', 'vendorAtomic', 'gasAtomic', 'marginAtomic'] as const
    const numbersOf = (earned: Earned) => amounts.map((amount) => BigInt(earned[amount]))
    for (const earned of [...margins.ofModels, margins.total]) {
      const [charged = 0n, vendor = 0n, gas = 0n, margin] = numbersOf(earned)
      expect(margin).toBe(charged - vendor - gas)
    }
    for (const { withoutVendorCost, withoutGas } of margins.ofModels) expect(withoutVendorCost + withoutGas).toBe(0)
    const ofCalls = margins.ofModels.map(numbersOf)
    const sums = amounts.map((_, index) => ofCalls.reduce((sum, numbers) => sum + (numbers[index] ?? 0n), 0n))
    const transactions = await sandbox.sql<{ hash: Hex }>(
      "SELECT transaction_hash AS hash FROM settlements WHERE state = 'confirmed'",
    )
    const receipts = await Promise.all(
      transactions.map(({ hash }) => sandbox.chain.client.getTransactionReceipt({ hash })),
    )
    const [charged = 0n, vendor = 0n, gas = 0n] = sums
    expect([charged, gas]).toEqual([
      total,
      receipts.reduce((sum, receipt) => sum + usdcOfWei(receipt.gasUsed * receipt.effectiveGasPrice, 4000), 0n),
    ])
    expect(vendor).toBeGreaterThan(0n)
    expect(numbersOf(margins.total)).toEqual([total, vendor, gas, total - vendor - gas])
  })

  test('prints the same figures as aligned text, even with a small log range', async () => {
    const { exitCode, output, errors } = await run(['--log-range', '1'], environment)
    expect({ exitCode, output }).toMatchObject({ exitCode: 0 })
    const usdc = `0.${total.toString().padStart(6, '0')}`
    expect(output).toMatch(new RegExp(`settlements confirmed in the period +6 +${usdc}\n`))
    expect(output).toMatch(new RegExp(`their transfers on chain +6 +${usdc}\n`))
    expect(output).toMatch(/other transfers to our recipients +1 +0\.000777\n/)
    expect(output).toMatch(/Uncharged work by payer: 0\.005034 in 1 entries of 1 payers\n {2}0x/)
    expect(output).toMatch(/unknown_outcome +1 +0\.005034\n/)
    expect(output).toContain('Ledger and chain agree to the atomic unit.')
    expect(errors).toMatch(/blocks read/)
  })

  test('reports no calls and no differences for a period before or after all of them', async () => {
    const before = await report('--from', '2020-01-01', '--to', '2020-01-02')
    expect(before).toMatchObject({ exitCode: 0, revenue: { count: 0 }, reconciliation: { ledger: { count: 0 } } })
    const after = await report('--from', '2100-01-01T00:00:00Z', '--to', '2100-01-02T00:00:00Z')
    expect(after).toMatchObject({ exitCode: 0, revenue: { count: 0 }, reconciliation: { differences: [] } })
  })

  test('counts each call once when a period is split between them', async () => {
    const [{ cut } = { cut: '' }] = await sandbox.sql<{ cut: string }>(
      "SELECT to_json(finished_at) #>> '{}' AS cut FROM jobs WHERE state = 'completed' ORDER BY finished_at OFFSET 3 LIMIT 1",
    )
    const [earlier, later] = [await report('--to', cut), await report('--from', cut)]
    expect([earlier.exitCode, later.exitCode]).toEqual([0, 0])
    expect([earlier.reconciliation.ledger.count, later.reconciliation.ledger.count]).toEqual([3, 3])
    expect(BigInt(earlier.revenue.totalAtomic) + BigInt(later.revenue.totalAtomic)).toBe(total)
  })

  test('reports a settlement in progress separately and not as a difference', async () => {
    const { job_id } = await settlementOf(pick('image'))
    await sandbox.sql('CREATE TABLE kept AS SELECT * FROM settlements WHERE job_id = $1', [job_id])
    await sandbox.sql('CREATE TABLE kept_job AS SELECT * FROM jobs WHERE id = $1', [job_id])
    // The lease keeps the worker from completing it in the meantime.
    await tamper(`UPDATE settlements SET state = 'signed', finished_at = NULL WHERE job_id = '${job_id}';
      UPDATE jobs SET state = 'settling', receipt_id = NULL, payment_response = NULL, finished_at = NULL,
        lease_expires_at = now() + interval '1 hour', run_after = now() + interval '1 hour' WHERE id = '${job_id}'`)
    const found = await report()
    await tamper(`DELETE FROM settlements WHERE job_id = '${job_id}'; INSERT INTO settlements SELECT * FROM kept;
      DELETE FROM jobs WHERE id = '${job_id}'; INSERT INTO jobs SELECT * FROM kept_job; DROP TABLE kept, kept_job`)
    const charge = pick('image').chargedAtomic.toString()
    expect(found).toMatchObject({
      exitCode: 0,
      openExposure: { count: 1, totalAtomic: charge },
      reconciliation: { ledger: { count: 5 }, chain: { count: 5 }, settling: { count: 1, totalAtomic: charge } },
    })
  })

  test.each<
    [string, string, (id: { job: string; block: string }) => string, (id: { job: string; block: string }) => string]
  >([
    [
      'a changed charge of the settlement',
      'amount_differs',
      ({ job }) => `UPDATE settlements SET charge_amount = charge_amount + 1 WHERE job_id = '${job}'`,
      ({ job }) => `UPDATE settlements SET charge_amount = charge_amount - 1 WHERE job_id = '${job}'`,
    ],
    [
      'a changed charge of the job',
      'ledger_contradicts_itself',
      ({ job }) => `UPDATE jobs SET charge_amount = charge_amount - 1 WHERE id = '${job}'`,
      ({ job }) => `UPDATE jobs SET charge_amount = charge_amount + 1 WHERE id = '${job}'`,
    ],
    [
      'a different block',
      'block_differs',
      ({ job }) => `UPDATE settlements SET block_number = block_number - 1, ${FINAL} WHERE job_id = '${job}'`,
      ({ job }) => `UPDATE settlements SET block_number = block_number + 1, ${NOT_FINAL} WHERE job_id = '${job}'`,
    ],
    [
      'a block that does not exist',
      'block_differs',
      ({ job }) => `UPDATE settlements SET block_number = 999999999, ${FINAL} WHERE job_id = '${job}'`,
      ({ job, block }) => `UPDATE settlements SET block_number = ${block}, ${NOT_FINAL} WHERE job_id = '${job}'`,
    ],
    [
      'a different payer',
      'payer_differs',
      ({ job }) => `UPDATE authorizations SET payer = '0x${'9'.repeat(40)}' WHERE job_id = '${job}'`,
      ({ job }) => `UPDATE authorizations SET payer = signed ->> 'payer' WHERE job_id = '${job}'`,
    ],
    [
      'a settlement marked as reverted',
      'unsettled_in_ledger',
      ({ job }) => `UPDATE settlements SET state = 'reverted' WHERE job_id = '${job}'`,
      ({ job }) => `UPDATE settlements SET state = 'confirmed' WHERE job_id = '${job}'`,
    ],
  ])('reports %s as %s and as nothing else', async (_, kind, corrupt, repair) => {
    const { job_id: job, block_number: block, transaction_hash } = await settlementOf(pick('transcription'))
    await tamper(corrupt({ job, block }))
    const { exitCode, reconciliation } = await report()
    await tamper(repair({ job, block }))
    expect(exitCode).toBe(1)
    expect(reconciliation.differences).toContainEqual(
      expect.objectContaining({ kind, jobId: job, transaction: transaction_hash }),
    )
    const kinds = new Set(reconciliation.differences.map((difference) => difference.kind))
    kinds.delete(kind)
    // The settlement's figures are also part of the job and of the sums.
    kinds.delete('ledger_contradicts_itself')
    kinds.delete('sums_differ')
    expect([...kinds]).toEqual([])
  })

  test('reports a settlement whose transaction is missing on chain', async () => {
    // Shows that the tests before have repaired what they changed.
    expect((await report()).exitCode).toBe(0)
    const { job_id, transaction_hash } = await settlementOf(pick('speech'))
    const fake = `0x${'ab'.repeat(32)}`
    await replaceHash(transaction_hash, fake)
    const { exitCode, reconciliation } = await report()
    await replaceHash(fake, transaction_hash)
    expect(exitCode).toBe(1)
    expect(reconciliation.differences).toContainEqual(
      expect.objectContaining({ kind: 'missing_on_chain', jobId: job_id, transaction: fake }),
    )
    expect(reconciliation.differences).toContainEqual(
      expect.objectContaining({ kind: 'unknown_to_ledger', transaction: transaction_hash }),
    )
    expect(reconciliation.differences).toContainEqual(expect.objectContaining({ kind: 'sums_differ' }))
  })

  test('exits with 1 and names transfer, job and account nonce of a settlement that was removed from the ledger', async () => {
    const { job_id, transaction_hash } = await settlementOf(pick('another'))
    const [removed] = await sandbox.sql<{ facilitator: string; account_nonce: string }>(
      'SELECT facilitator, account_nonce FROM settlement_transactions WHERE hash = $1',
      [transaction_hash],
    )
    await tamper(`DELETE FROM settlement_transactions WHERE hash = '${transaction_hash}';
      DELETE FROM settlements WHERE job_id = '${job_id}'`)
    const { exitCode, output } = await run([], environment)
    expect(exitCode).toBe(1)
    const lines = output.split('\n').filter((line) => line.includes('unknown_to_ledger'))
    expect(lines).toHaveLength(1)
    expect(lines[0]).toContain(transaction_hash)
    expect(lines[0]).toContain(`${pick('another').chargedAtomic} from ${sandbox.payer.address.toLowerCase()}`)
    expect(output).toMatch(/\n3 differences:\n/)
    expect(output).toContain(`ledger_contradicts_itself  job ${job_id}`)
    expect(output).toMatch(
      new RegExp(`nonce_used_elsewhere +account nonce ${removed?.account_nonce} of ${removed?.facilitator}\n`),
    )
    const before = await report('--from', '2020-01-01T00:00:00Z', '--to', '2020-01-02T00:00:00Z')
    expect(before.reconciliation.differences).toEqual([])
  })
})

describe('wrong usage and unreachable services', () => {
  test.each<[string, readonly string[], Record<string, string>, RegExp]>([
    ['an unknown option', ['--chain'], {}, /--chain/],
    ['a positional argument', ['today'], {}, /too many arguments/],
    ['an invalid time', ['--from', 'yesterday'], {}, /--from must be a day in UTC such as .*, or an ISO 8601 time/],
    [
      'a period that ends before it begins',
      ['--from', '2026-01-02T00:00:00Z', '--to', '2026-01-01T00:00:00Z'],
      {},
      /--from must be before --to/,
    ],
    ['a log range of zero', ['--log-range', '0'], {}, /--log-range/],
    ['no database', [], { DATABASE_URL: '' }, /DATABASE_URL is not set/],
    ['no chain', [], { RPC_URL: '' }, /RPC_URL is not set/],
    [
      'an unreachable database',
      ['--no-chain'],
      { DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none' },
      /the database at DATABASE_URL cannot be read/,
    ],
    ['an unreachable chain', [], { RPC_URL: 'http://127.0.0.1:9/' }, /the chain at RPC_URL cannot be read/],
    [
      'a sandbox that is not running',
      ['--sandbox'],
      { SANDBOX_FILE: '/nowhere/sandbox.json' },
      /\/nowhere\/sandbox\.json cannot be read/,
    ],
  ])('exits with 2 and names the cause: %s', async (_, programArguments, changes, says) => {
    const { exitCode, errors, output } = await runHere(programArguments, { ...environment, ...changes })
    expect({ exitCode, output }).toEqual({ exitCode: 2, output: '' })
    expect(errors).toMatch(says)
  })

  test('skips reconciliation with --no-chain, and prints --help without any settings', async () => {
    const { exitCode, output } = await run(['--no-chain'], { DATABASE_URL: sandbox.info.databaseUrl })
    expect({ exitCode, output: output.split('\n').at(-2) }).toEqual({
      exitCode: 0,
      output: 'Not reconciled with the chain (--no-chain).',
    })
    expect(await run(['--help'], {})).toMatchObject({
      exitCode: 0,
      output: expect.stringContaining('Usage: npm run ledger'),
    })
  })

  test('finds a sandbox through its sandbox.json', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'farebox-ledger-'))
    const file = join(directory, 'sandbox.json')
    await writeFile(file, JSON.stringify(sandbox.info))
    try {
      const { exitCode } = await run(['--sandbox', '--to', '2020-01-01T00:00:00Z'], { SANDBOX_FILE: file })
      expect(exitCode).toBe(0)
    } finally {
      await rm(directory, { recursive: true })
    }
  })
})
