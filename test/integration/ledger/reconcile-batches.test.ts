import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createSettler } from '#shared/adapters/chain/settlement/settler.ts'
import type { ClaimedJob } from '#shared/jobs/job.ts'
import type { BatchRecording } from '#shared/jobs/settlement-store.ts'
import type { PreparedCharge, Settler } from '#shared/payment/facilitator.ts'
import type { Receipt } from '#shared/payment/receipt.ts'
import { checkTransfer } from '../../../client/receipts/check-transfer.ts'
import { openNode } from '../../../client/wallet/node-client.ts'
import type { Receipt as ClientReceipt } from '../../../client/wire/schemas.ts'
import { main } from '../../../infra/commands/ledger.ts'
import { checkChain } from '../../../infra/commands/verify-receipt/check-chain.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { deployTestContract, type TestSettlementContract } from '../../support/chain/settlement-contract.ts'
import { completionOf, jobInState, rereadJob } from '../../support/ledger/job-in-state.ts'
import { newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { NETWORK } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { callCommand } from '../../support/processes/call-command.ts'

type Hex = `0x${string}`

let ledger: TestLedger
let devnet: TestDevnet
let contract: TestSettlementContract
let settler: Settler
let sender: Hex
let payer: Payer
beforeAll(async () => {
  ;[ledger, devnet] = await Promise.all([createTestLedger(), startTestDevnet()])
  const { privateKey, address } = devnet.accounts.settlement
  sender = address.toLowerCase() as Hex
  contract = await deployTestContract(devnet, [sender])
  settler = createSettler(createChainClient(devnet.rpcUrl, PATIENCE_MS), 8453, [privateKey])
  payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 100n * TEST_PRICE, approved: true })
})
afterAll(() => Promise.all([ledger.close(), devnet.stop()]))

async function signed(by: Payer) {
  return await signAuthorization(devnet, by, {
    gasSponsored: false,
    authorizedMaximum: TEST_PRICE,
    facilitator: contract.address,
  })
}

async function recordingOf(by: Payer): Promise<BatchRecording> {
  const authorization = await signed(by)
  return {
    job: await jobInState(ledger, 'generated', newTestJob({ authorization })),
    charge: await prepared(authorization),
  }
}

async function prepared(authorization: PreparedCharge['authorization']): Promise<PreparedCharge> {
  const ready = await settler.prepare(authorization, TEST_PRICE)
  if (ready.outcome !== 'ready') throw new Error(`not ready: ${ready.outcome}`)
  return { authorization, chargeAmount: TEST_PRICE, terms: ready.terms }
}

interface Batch {
  readonly hash: Hex
  readonly blockNumber: bigint
  readonly jobs: readonly ClaimedJob[]
}

/** Settles a payment of each payer in one transaction. */
async function settle(...payers: readonly Payer[]): Promise<Batch> {
  const recordings: BatchRecording[] = []
  for (const each of payers) recordings.push(await recordingOf(each))
  const outcomes = await ledger.settlement.recordBatch(recordings, {
    account: { network: NETWORK, facilitator: sender },
    contract: contract.address,
    minimumAccountNonce: BigInt(await devnet.client.getTransactionCount({ address: sender })),
    sign: (charges, accountNonce) => settler.signBatch(charges, sender, accountNonce),
  })
  const [first] = outcomes
  if (first === undefined || typeof first === 'string' || first instanceof Error) throw new Error('not recorded')
  const [transaction] = first.transactions
  if (!transaction) throw new Error('nothing was signed')
  expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
  const { blockNumber } = await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
  const jobs = await Promise.all(recordings.map(({ job }) => rereadJob(ledger, job)))
  return { hash: transaction.hash, blockNumber, jobs }
}

async function receiptOf({ hash, blockNumber }: Batch, job: ClaimedJob): Promise<Receipt> {
  const { receipt } = await completionOf(ledger, job)
  return { ...receipt, transaction: hash, block_number: blockNumber.toString() }
}

async function complete(batch: Batch, job: ClaimedJob | undefined): Promise<string> {
  if (!job) throw new Error('no such job')
  const { hash, blockNumber } = batch
  const completion = await completionOf(ledger, job)
  const receipt = await receiptOf(batch, job)
  await ledger.settlement.completeJob(job, { ...completion, transactionHash: hash, blockNumber, receipt })
  return job.id
}

interface Report {
  readonly reconciliation: {
    readonly ledger: { readonly count: number }
    readonly settling: { readonly count: number }
    readonly differences: readonly {
      readonly kind: string
      readonly jobId: string | null
      readonly transaction: string
    }[]
  }
}

/** Returns what the command finds, with the differences of this transaction only. */
async function reportOn(hash: Hex) {
  const environment = { DATABASE_URL: ledger.url, RPC_URL: devnet.rpcUrl }
  const { output, errors } = await callCommand(() => main(['--json'], environment))
  expect(errors).toBe('')
  const { ledger: found, settling, differences } = (JSON.parse(output) as Report).reconciliation
  const ofBatch = differences.filter(({ transaction }) => transaction === hash)
  return {
    counts: [found.count, settling.count],
    differences: ofBatch.map(({ kind, jobId }) => [kind, jobId]),
  }
}

describe('reconciling a batch with the chain', () => {
  it('agrees payment by payment, although two of them have one payer and one amount', async () => {
    const other = await createPayer(devnet.rpcUrl, { usdcAtomic: TEST_PRICE, approved: true })
    const batch = await settle(payer, other, payer)
    expect(await reportOn(batch.hash)).toEqual({ counts: [0, 3], differences: [] })
    await complete(batch, batch.jobs[0])
    await complete(batch, batch.jobs[1])
    expect(await reportOn(batch.hash)).toEqual({ counts: [2, 1], differences: [] })
    await complete(batch, batch.jobs[2])
    expect(await reportOn(batch.hash)).toEqual({ counts: [3, 0], differences: [] })
  })

  it('finds a payment that failed in the batch, although another one of its payer has its amount', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: TEST_PRICE, approved: true })
    const batch = await settle(poor, poor)
    const [paid, unpaid] = [await complete(batch, batch.jobs[0]), await complete(batch, batch.jobs[1])]
    const { differences } = await reportOn(batch.hash)
    expect(paid).not.toBe(unpaid)
    expect(differences).toEqual([['missing_on_chain', unpaid]])
  })

  it('finds a payment that the ledger has lost, although it knows another one of the transaction', async () => {
    const batch = await settle(payer, payer)
    const [kept, lost] = batch.jobs
    await complete(batch, kept)
    await ledger.sql('DELETE FROM settlements WHERE job_id = $1', [lost?.id])
    expect((await reportOn(batch.hash)).differences).toEqual([['unknown_to_ledger', null]])
  })

  it('finds a batch that a key of the list sent and the ledger never had, whatever key it was', async () => {
    const charge = await prepared(await signed(payer))
    const { privateKey, address } = devnet.accounts.recipient
    await contract.setKey(address, true)
    await devnet.client.request({
      method: 'anvil_setBalance' as never,
      params: [address, '0x8ac7230489e80000'] as never,
    })
    const foreign = createSettler(createChainClient(devnet.rpcUrl, PATIENCE_MS), 8453, [privateKey])
    const transaction = await foreign.signBatch([charge], address.toLowerCase() as Hex, 0n)
    expect(await foreign.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
    await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
    expect((await reportOn(transaction.hash)).differences).toEqual([['unknown_to_ledger', null]])
  })
})

/** What the command and the library say about the transfer of a receipt. */
async function verdictsOn(receipt: Receipt) {
  const checks = await checkChain(receipt, devnet.rpcUrl)
  const library = await checkTransfer(receipt as ClientReceipt, await openNode(devnet.rpcUrl), 1)
  return [checks.find(({ check }) => check === 'transfer'), library]
}

describe('receipts of a batch', () => {
  it('verify although their payer has others in it, and fail with another amount', async () => {
    const batch = await settle(payer, payer)
    for (const job of batch.jobs) {
      const receipt = await receiptOf(batch, job)
      const [command, library] = await verdictsOn(receipt)
      expect(command).toMatchObject({ outcome: 'passed', detail: expect.stringContaining('in a batch of 2') })
      expect(library).toMatchObject({ outcome: 'passed', detail: expect.stringContaining('in a batch of 2') })
      // Both transfers together are nobody's.
      const both = { ...receipt, charge_atomic: (2n * TEST_PRICE).toString() }
      for (const verdict of await verdictsOn(both)) expect(verdict).toMatchObject({ outcome: 'failed' })
    }
  })
})
