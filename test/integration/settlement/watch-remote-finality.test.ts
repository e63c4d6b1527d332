import { afterAll, beforeAll, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { settleRemotely } from '../../support/chain/remote-settling.ts'
import { startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { sentAgain } from '../../support/ledger/new-test-job.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

let worker: TestWorker
beforeAll(async () => {
  worker = await startTestWorker()
})
afterAll(() => worker.stop())

/** Uses a new facilitator: viem's nonce manager would continue from nonces that a reorganization has freed. */
async function withFacilitator<T>(work: (settling: ReturnType<typeof settleRemotely>) => Promise<T>): Promise<T> {
  const facilitator = await startSdkFacilitator(worker.devnet.rpcUrl, worker.devnet.accounts.settlement.privateKey)
  try {
    return await work(settleRemotely(worker, facilitator.url))
  } finally {
    await facilitator.stop()
  }
}

/** Completes a job and then removes its block from the chain. */
async function removeFromChain() {
  const accepted = await worker.accept()
  await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
    await worker.run(accepted.jobId, { verifier, settlementSteps })
    expect(await worker.view(accepted.jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await watch()).toBe(0)
  })
  await callRpc(worker.devnet.rpcUrl, 'anvil_rollback', [1])
  expect(await transfersFrom(accepted.payer)).toBe(0)
  return accepted
}

async function transfersFrom({ address }: { address: string }): Promise<number> {
  const transfers = await worker.devnet.transfersTo(worker.devnet.accounts.recipient.address)
  return transfers.filter(({ from }) => from.toLowerCase() === address).length
}

it('requests a settlement again that a reorganization removed, and finds it in its new block', async () => {
  const { jobId, payer } = await removeFromChain()
  await withFacilitator(async ({ watch }) => {
    expect(await watch()).toBe(0)
    expect(await transfersFrom(payer)).toBe(1)
    expect(await watch()).toBe(1)
    expect(await watch()).toBe(0)
  })
  const [row] = await worker.ledger.sql<{ block_hash: string; block_number: string }>(
    'SELECT block_hash, block_number FROM settlements WHERE job_id = $1',
    [jobId],
  )
  const block = await worker.devnet.client.getBlock({ blockNumber: BigInt(row?.block_number ?? 0) })
  expect(row?.block_hash).toBe(block.hash)
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
})

it('does not lose a settlement because a node lags behind the others', async () => {
  const { jobId } = await worker.accept()
  await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
    await worker.run(jobId, { verifier, settlementSteps })
    // The node that answers for blocks and logs does not have the newest block yet; the one that answers for state
    // does.
    worker.proxy.chooseFault(({ method, params }) => {
      if (method === 'eth_getLogs') return { kind: 'forge', answer: { result: [] } }
      return method === 'eth_getBlockByNumber' && params[0] !== 'latest' && params[0] !== 'finalized'
        ? { kind: 'forge', answer: { result: null } }
        : null
    })
    await watch()
    worker.proxy.chooseFault(() => null)
    expect(await watch()).toBe(0)
  })
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
})

it('loses a removed settlement whose nonce the payer invalidates, while its job stays completed', async () => {
  const { jobId, payer, request } = await removeFromChain()
  await payer.invalidateNonce(request.authorization.nonce)
  await withFacilitator(async ({ watch }) => {
    expect(await watch()).toBe(1)
    expect(await watch()).toBe(0)
  })
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['lost'] })
  expect(await transfersFrom(payer)).toBe(0)
})

/**
 * A job that failed because its payer invalidated the nonce, in a block that is then removed and settles it after all.
 */
async function failedAndChargedAfterwards() {
  const accepted = await worker.accept()
  const { jobId, payer, request } = accepted
  await withFacilitator(async ({ verifier, settlementSteps }) => {
    let isInvalidated = false
    const settleCharge: typeof settlementSteps.settleCharge = async (job, context) => {
      if (!isInvalidated) await payer.invalidateNonce(request.authorization.nonce)
      isInvalidated = true
      return await settlementSteps.settleCharge(job, context)
    }
    const steps = { verifier, settlementSteps: { ...settlementSteps, settleCharge } }
    await worker.run(jobId, steps)
    await worker.runNow(jobId, steps)
  })
  expect(await worker.view(jobId)).toMatchObject({ state: 'settlement_failed', settlements: ['reverted'] })
  await callRpc(worker.devnet.rpcUrl, 'anvil_rollback', [1])
  await withFacilitator(({ facilitator }) => facilitator.settle(request.authorization, atomicAmount(5034n)))
  await expect.poll(() => transfersFrom(payer)).toBe(1)
  return accepted
}

it('completes a job whose failed settlement charged the payer after a reorganization', async () => {
  const { jobId, payer } = await failedAndChargedAfterwards()
  await withFacilitator(async ({ verifier, settlementSteps, watch }) => {
    expect(await watch()).toBe(1)
    expect(await worker.view(jobId)).toMatchObject({ state: 'settling', settlements: ['signed'] })
    await worker.runNow(jobId, { verifier, settlementSteps })
  })
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  expect(await transfersFrom(payer)).toBe(1)
})

it('charges an earlier authorization that succeeded after a reorganization instead of a fresh one', async () => {
  const { jobId, payer, request } = await failedAndChargedAfterwards()
  const fresh = await signAuthorization(worker.devnet, payer, { gasSponsored: false })
  await payer.approve()
  expect(await worker.ledger.admission.acceptJob(sentAgain(request, { authorization: fresh }))).toMatchObject({
    outcome: 'settles_again',
  })
  await withFacilitator(({ verifier, settlementSteps }) => worker.runNow(jobId, { verifier, settlementSteps }))
  expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
  expect(await transfersFrom(payer)).toBe(1)
  expect(await worker.devnet.isPermit2NonceUsed(payer.address, fresh.nonce)).toBe(false)
})
