import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import type { BatchRecording } from '#shared/ledger/settlement/record-batch.ts'
import type { NewBatch } from '#shared/ledger/settlement/settlement-batches.ts'
import { createSettlementStore } from '#shared/ledger/settlement/settlement-store.ts'
import type { PreparedCharge, Settler } from '#shared/payment/facilitator.ts'
import type { Receipt } from '#shared/payment/receipt.ts'
import { checkTransfer } from '../../../client/receipts/check-receipt.ts'
import { openNode } from '../../../client/wallet/node-client.ts'
import type { Receipt as ClientReceipt } from '../../../client/wire/schemas.ts'
import { main } from '../../../infra/commands/ledger/main.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { deployTestContract, type TestSettlementContract } from '../../support/chain/settlement-contract.ts'
import {
  acceptTestJob,
  claimTestJob,
  completionOf,
  fencedWrites,
  jobInState,
  rereadJob,
  storedState,
} from '../../support/ledger/job-in-state.ts'
import { newTestJob, paidAgain, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { type BatchedJob, generatedJobs, settlingBatch } from '../../support/ledger/settling-batch.ts'
import { NETWORK, randomAddress } from '../../support/ledger/test-authorization.ts'
import {
  newTestBatch,
  recordingOf,
  renewalOf,
  signRandomBytes,
  stored,
  TEST_CONTRACT,
} from '../../support/ledger/test-batch.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { callCommand } from '../../support/processes/call-command.ts'

type Hex = `0x${string}`
interface Batch {
  readonly hash: Hex
  readonly blockNumber: bigint
  readonly jobs: readonly LeasedJob[]
}

describe('batches in the ledger', () => {
  let ledger: TestLedger
  beforeAll(async () => {
    ledger = await createTestLedger()
  })

  afterAll(() => ledger.close())

  const record = (jobs: readonly LeasedJob[], batch: NewBatch, store = ledger.settlement) =>
    store.recordBatch(
      jobs.map((job) => recordingOf(job)),
      batch,
    )
  const renew = (jobs: readonly BatchedJob[], batch: NewBatch) =>
    ledger.settlement.renewBatch(
      jobs.map(({ job, settlement }) => renewalOf(job, settlement)),
      batch,
    )
  /** Returns the batches of a key in order of their account nonce, with the number of their settlements. */
  async function batchesOf({ account }: NewBatch) {
    return await ledger.sql<{ nonce: number; size: number; settlements: number; transactions: number }>(
      `SELECT account_nonce::int AS nonce, size,
       (SELECT count(*) FROM settlements WHERE batch_id = settlement_batches.id)::int AS settlements,
       (SELECT count(*) FROM settlement_transactions WHERE batch_id = settlement_batches.id)::int AS transactions
     FROM settlement_batches WHERE facilitator = $1 ORDER BY account_nonce`,
      [account.facilitator],
    )
  }
  async function nextNonceOf({ account }: NewBatch): Promise<bigint | null> {
    return await ledger.settlement.readNextAccountNonce(account)
  }
  describe('recording a batch', () => {
    it('settles several jobs by one transaction of one account nonce, signed with their charges', async () => {
      const jobs = await generatedJobs(ledger, 3)
      const batch = newTestBatch()
      const outcomes = (await record(jobs, { ...batch, minimumAccountNonce: 7n })).map(stored)
      expect(batch.signed).toHaveLength(1)
      const [signed] = batch.signed
      expect(signed?.accountNonce).toBe(7n)
      expect(signed?.charges.map(({ authorization }) => authorization)).toEqual(
        jobs.map(({ authorization }) => authorization),
      )
      const [id] = outcomes.map((outcome) => outcome.batch?.id)
      const sender = batch.account.facilitator
      for (const outcome of outcomes)
        expect(outcome).toMatchObject({
          batch: { id, size: 3 },
          transactions: [{ hash: signed?.hash, sender, accountNonce: 7n }],
        })
      expect(new Set(outcomes.map(({ settlementId }) => settlementId)).size).toBe(3)
      for (const job of jobs) expect((await storedState(ledger, job.id)).state).toBe('settling')
      // Another worker finds the same.
      expect(await Promise.all(jobs.map((job) => ledger.settlement.readSettlement(job)))).toEqual(outcomes)
      expect(await batchesOf(batch)).toEqual([{ nonce: 7, size: 3, settlements: 3, transactions: 1 }])
      expect(await ledger.sql('SELECT DISTINCT contract FROM settlement_batches WHERE id = $1', [id])).toEqual([
        { contract: TEST_CONTRACT },
      ])
    })

    it('signs no seventeenth transaction of a key before the chain has mined one, whatever it is for', async () => {
      const sender = randomAddress()
      const batch = newTestBatch(sender)
      const batched = await settlingBatch(ledger, 1, batch)
      for (let more = 1; more < 16; more += 1) await settlingBatch(ledger, 1, batch)
      const [late] = await generatedJobs(ledger, 1)
      if (!late) throw new Error('a job')
      expect(await record([late], batch)).toEqual(['queue_full'])
      expect((await storedState(ledger, late.id)).state).toBe('generated')
      expect(await renew(batched, newTestBatch(sender))).toEqual(['queue_full'])
      expect(batch.signed).toHaveLength(16)
      expect(await record([late], { ...batch, minimumAccountNonce: 1n })).toMatchObject([{ batch: { size: 1 } }])
      expect(await nextNonceOf(batch)).toBe(17n)
    })

    it('leaves out jobs whose lease was lost and those with an earlier settlement that was not looked up', async () => {
      const [held, late] = await generatedJobs(ledger, 2)
      const request = newTestJob()
      const failed = await jobInState(ledger, 'settlement_failed', request)
      await ledger.acceptance.acceptPayment(paidAgain(request))
      const paidTwice = await claimTestJob(ledger, failed.id)
      if (!held || !late) throw new Error('two jobs')
      const batch = newTestBatch()
      const outcomes = await record([{ ...late, fence: late.fence - 1n }, held, paidTwice], batch)
      expect(outcomes).toMatchObject(['stale', { batch: { size: 1 } }, 'settled_before'])
      expect(batch.signed.map(({ charges }) => charges.map(({ authorization }) => authorization.payer))).toEqual([
        [held.authorization.payer],
      ])
      expect((await storedState(ledger, paidTwice.id)).state).toBe('generated')
      const earlier = await ledger.settlement.readEarlierSettlements(paidTwice)
      const lookedUp = earlier.map(({ settlementId }) => settlementId)
      const again = await ledger.settlement.recordBatch([recordingOf(paidTwice, lookedUp)], batch)
      expect(again).toMatchObject([{ batch: { size: 1 } }])
    })

    it('signs nothing and takes no account nonce when no job is left', async () => {
      const [job] = await generatedJobs(ledger, 1)
      if (!job) throw new Error('one job')
      const batch = newTestBatch()
      expect(await record([{ ...job, fence: job.fence + 1n }], batch)).toEqual(['stale'])
      expect(await record([], batch)).toEqual([])
      expect(batch.signed).toEqual([])
      expect(await nextNonceOf(batch)).toBeNull()
    })

    it('fails alone for a payment that cannot be written, and leaves no nonce gap', async () => {
      const jobs = await generatedJobs(ledger, 8)
      const [, , , , , bad] = jobs
      const batch = newTestBatch(randomAddress(), {
        sign: async (charges, accountNonce) => {
          if (charges.some(({ authorization }) => authorization.payer === bad?.authorization.payer))
            throw new Error('cannot be encoded')
          return await signRandomBytes(accountNonce)
        },
      })
      const outcomes = await record(jobs, batch)
      expect(outcomes.map((outcome) => outcome instanceof Error)).toEqual(jobs.map((job) => job === bad))
      // The others stay together as far as possible.
      expect((await batchesOf(batch)).map(({ nonce, size }) => [nonce, size])).toEqual([
        [0, 4],
        [1, 1],
        [2, 2],
      ])
      expect(bad && (await storedState(ledger, bad.id)).state).toBe('generated')
      expect(bad && (await record([bad], newTestBatch()))).toMatchObject([{ batch: { size: 1 } }])
    })

    it('records nothing of a batch whose transaction cannot be signed', async () => {
      const jobs = await generatedJobs(ledger, 3)
      const before = await ledger.fingerprint()
      const batch = newTestBatch(randomAddress(), { sign: () => Promise.reject(new Error('the key cannot sign')) })
      expect(await record(jobs, batch)).toEqual(jobs.map(() => new Error('the key cannot sign')))
      expect(await ledger.fingerprint()).toBe(before)
    })

    it('settles a job once when it is recorded twice, together or by two processes', async () => {
      const [twice, ...others] = await generatedJobs(ledger, 5)
      if (!twice) throw new Error('five jobs')
      const batch = newTestBatch()
      const together = await record([twice, twice], batch)
      expect(together.filter((outcome) => typeof outcome === 'object' && !(outcome instanceof Error))).toHaveLength(1)
      const other = createSettlementStore(ledger.pool)
      const [one, two] = await Promise.all([record(others, batch), record(others, batch, other)])
      expect([...one, ...two].filter((outcome) => outcome === 'stale')).toHaveLength(others.length)
    })

    it('takes consecutive account nonces for batches, single settlements and two processes of one key', async () => {
      const batch = newTestBatch()
      const { facilitator } = batch.account
      const stores = [ledger.settlement, createSettlementStore(ledger.pool)]
      const jobs = await generatedJobs(ledger, 24)
      const single = await jobInState(ledger, 'generated')
      await Promise.all([
        ...Array.from({ length: 8 }, (_, index) =>
          record(jobs.slice(index * 3, index * 3 + 3), batch, stores[index % 2]),
        ),
        ledger.settlement.recordSettlement(
          { ...single, authorization: { ...single.authorization, facilitator } },
          { chargeAmount: recordingOf(single).charge.chargeAmount, minimumAccountNonce: 0n, sign: signRandomBytes },
        ),
      ])
      const rows = await ledger.sql<{ nonce: number }>(
        'SELECT account_nonce::int AS nonce FROM settlement_transactions WHERE facilitator = $1 ORDER BY 1',
        [facilitator],
      )
      expect(rows.map(({ nonce }) => nonce)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
    })
  })

  describe('renewing a batch', () => {
    it('moves settlements of several batches and keys into one, and keeps every transaction, newest first', async () => {
      const [first, second, next] = [newTestBatch(), newTestBatch(), newTestBatch()]
      const moved = [...(await settlingBatch(ledger, 2, first)), ...(await settlingBatch(ledger, 1, second))]
      const renewed = (await renew(moved, next)).map(stored)
      const [id] = renewed.map(({ batch }) => batch?.id)
      const hashes = [first, first, second].map(({ signed }) => signed[0]?.hash)
      expect(renewed).toMatchObject(
        moved.map(({ settlement }, index) => ({
          settlementId: settlement.settlementId,
          batch: { id, size: 3 },
          transactions: [{ hash: next.signed[0]?.hash, sender: next.account.facilitator }, { hash: hashes[index] }],
        })),
      )
      // A transaction that several settlements share is held in memory once.
      expect(renewed[0]?.transactions[1]).toBe(renewed[1]?.transactions[1])
      for (const [index, { job }] of moved.entries())
        expect(await ledger.settlement.readSettlement(job)).toEqual(renewed[index])
      expect(await batchesOf(first)).toEqual([{ nonce: 0, size: 2, settlements: 0, transactions: 1 }])
      // And once more: all three batches count.
      const [again] = (
        await renew(
          moved.slice(0, 1).map((job, index) => ({ ...job, settlement: stored(renewed[index]) })),
          newTestBatch(),
        )
      ).map(stored)
      expect(again?.transactions.map(({ hash }) => hash).slice(1)).toEqual([
        next.signed[0]?.hash,
        first.signed[0]?.hash,
      ])
    })

    it('moves a settlement once, and only under its job’s fence', async () => {
      const [held, late] = await settlingBatch(ledger, 2)
      if (!held || !late) throw new Error('two jobs')
      const lost = { ...late, job: { ...late.job, fence: late.job.fence - 1n } }
      const batch = newTestBatch()
      expect(await renew([held, lost], batch)).toMatchObject([{ batch: { size: 1 } }, 'stale'])
      const before = await ledger.fingerprint()
      expect(await renew([held, lost], batch)).toEqual([
        new Error(
          `job ${held.job.id} has no open settlement ${held.settlement.settlementId} in ${held.settlement.batch?.id}`,
        ),
        'stale',
      ])
      expect(batch.signed).toHaveLength(1)
      expect(await ledger.fingerprint()).toBe(before)
    })

    it('does not move a settlement that has ended', async () => {
      const [ended, open] = await settlingBatch(ledger, 2)
      if (!ended || !open) throw new Error('two jobs')
      await ledger.sql("UPDATE settlements SET state = 'reverted' WHERE id = $1", [ended.settlement.settlementId])
      expect(await renew([ended, open], newTestBatch())).toMatchObject([expect.any(Error), { batch: { size: 1 } }])
    })

    it('moves at most once when two processes renew at the same time', async () => {
      const jobs = await settlingBatch(ledger, 6)
      const outcomes = await Promise.all([renew(jobs, newTestBatch()), renew(jobs.toReversed(), newTestBatch())])
      const moved = outcomes.flat().filter((outcome) => typeof outcome === 'object' && !(outcome instanceof Error))
      expect(moved).toHaveLength(6)
      const rows = await ledger.sql<{ batches: number }>(
        'SELECT cardinality(earlier_batches) AS batches FROM settlements WHERE id = ANY($1)',
        [jobs.map(({ settlement }) => settlement.settlementId)],
      )
      expect(rows.map(({ batches }) => batches)).toEqual(jobs.map(() => 1))
    })

    it('completes a job with a transaction of a batch that it has left', async () => {
      const [moved] = await settlingBatch(ledger, 1)
      if (!moved) throw new Error('one job')
      await renew([moved], newTestBatch())
      expect(await fencedWrites.completeJob.run(ledger, moved.job)).toBe('written')
    })
  })

  it('leaves jobs that settle one by one out of all batches', async () => {
    const job = await claimTestJob(ledger, await acceptTestJob(ledger))
    expect(await ledger.sql('SELECT 1 FROM settlements WHERE job_id = $1', [job.id])).toEqual([])
    const settling = await jobInState(ledger, 'settling')
    expect(await ledger.settlement.readSettlement(settling)).toMatchObject({
      batch: null,
      transactions: [{ sender: settling.authorization.facilitator }],
    })
  })

  /** A completed job that was settled alone in a batch, and what signs it again. */
  async function completedInBatch() {
    const batch = newTestBatch()
    const [one] = await settlingBatch(ledger, 1, batch)
    if (!one) throw new Error('a job')
    await fencedWrites.completeJob.run(ledger, one.job)
    const { charge } = renewalOf(one.job, one.settlement)
    return { ...one, batch, renewal: { ...batch, charge } }
  }
  describe('a confirmed settlement whose transactions cannot be mined any more', () => {
    it('is signed once for another account nonce by any number of watchers, and stays confirmed', async () => {
      const { job, settlement, batch, renewal } = await completedInBatch()
      const renewed = await Promise.all(
        Array.from({ length: 4 }, () => ledger.settlement.renewReleased(settlement, renewal)),
      )
      const signed = renewed.flatMap((transaction) => transaction ?? [])
      expect(signed).toMatchObject([{ sender: batch.account.facilitator, accountNonce: 1n }])
      expect(batch.signed).toHaveLength(2)
      const [first, second] = await batchesOf(batch)
      expect([first, second]).toMatchObject([
        { nonce: 0, size: 1, settlements: 0 },
        { nonce: 1, size: 1, settlements: 1 },
      ])
      await ledger.sql('UPDATE settlements SET block_hash = NULL WHERE id = $1', [settlement.settlementId])
      const [removed] = (await ledger.settlement.readRemoved(1000)).filter(({ jobId }) => jobId === job.id)
      expect(removed?.transactions.map(({ hash }) => hash)).toEqual([signed[0]?.hash, settlement.transactions[0]?.hash])
    })

    it('is not signed again once it is final or lost', async () => {
      for (const end of ['finalized_at = now()', "state = 'lost', failure_reason = 'test'"]) {
        const { settlement, batch, renewal } = await completedInBatch()
        await ledger.sql(`UPDATE settlements SET ${end} WHERE id = $1`, [settlement.settlementId])
        expect(await ledger.settlement.renewReleased(settlement, renewal)).toBeNull()
        expect(batch.signed).toHaveLength(1)
      }
    })
  })
})

describe('batches held against the chain', () => {
  let ledger: TestLedger
  let devnet: TestDevnet
  let contract: TestSettlementContract
  let settler: Settler
  let sender: Hex
  let payer: Payer
  beforeAll(async () => {
    devnet = await startTestDevnet()
    const { privateKey, address } = devnet.accounts.settlement
    sender = address.toLowerCase() as Hex
    contract = await deployTestContract(devnet, [sender])
    settler = createSettler(createChainClient(devnet.rpcUrl, PATIENCE_MS), 8453, [privateKey])
    payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 100n * TEST_PRICE, approved: true })
  })

  afterAll(() => devnet.stop())

  beforeEach(async () => {
    ledger = await createTestLedger()
  })

  afterEach(() => ledger.close())

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
  async function receiptOf({ hash, blockNumber }: Batch, job: LeasedJob): Promise<Receipt> {
    const { receipt } = await completionOf(ledger, job)
    return { ...receipt, transaction: hash, block_number: blockNumber.toString() }
  }
  async function complete(batch: Batch, job: LeasedJob | undefined): Promise<string> {
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
      const known = await settle(payer)
      await complete(known, known.jobs[0])
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

  describe('receipts of a batch', () => {
    it('verify although their payer has others in it, and fail with another amount', async () => {
      const node = await openNode(devnet.rpcUrl)
      const batch = await settle(payer, payer)
      for (const job of batch.jobs) {
        const receipt = await receiptOf(batch, job)
        const verdict = await checkTransfer(receipt as ClientReceipt, node, 1)
        expect(verdict).toMatchObject({ outcome: 'passed', detail: expect.stringContaining('in a batch of 2') })
        // Both transfers together are nobody's.
        const both = { ...(receipt as ClientReceipt), charge_atomic: (2n * TEST_PRICE).toString() }
        expect(await checkTransfer(both, node, 1)).toMatchObject({ outcome: 'failed' })
      }
    })
  })
})
