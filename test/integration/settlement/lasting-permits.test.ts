import { readFile } from 'node:fs/promises'
import { type Hex, keccak256, parseAbi } from 'viem'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import type { Settler } from '#shared/payment/facilitator.ts'
import { readSettlementArtifact } from '../../../infra/contracts/settlement-artifact.ts'
import { settlementDeployment } from '../../../infra/contracts/settlement-deployment.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { age, createSettlementChain, onceForEach, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { together } from '../../support/chain/together.ts'
import { permitCall } from '../../support/payer/allowance-permit.ts'
import { createPayer, type Payer, sendAs } from '../../support/payer/payer.ts'
import { type AcceptedJob, startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'
import { until } from '../../support/until.ts'

const CHARGE = 5034n
const VALUE = 1_000_000n
const NONCES_ABI = parseAbi(['function nonces(address owner) view returns (uint256)'])
const EARLIER = new URL('../../support/chain/earlier-settlement-contract.json', import.meta.url)

let worker: TestWorker
let chain: SettlementChain
beforeAll(async () => {
  worker = await startTestWorker()
})
beforeEach(async () => {
  chain = await createSettlementChain(worker, { throughContract: true })
})
afterAll(() => worker.stop())

async function acceptSharing(payer: Payer, count: number, permitAmount = VALUE): Promise<readonly AcceptedJob[]> {
  const jobs: AcceptedJob[] = []
  while (jobs.length < count) jobs.push(await chain.accept({ permitAmount }, payer))
  return jobs
}
const permitsUsed = (payer: Payer) =>
  worker.devnet.client.readContract({
    address: DEVNET_ADDRESSES.usdc,
    abi: NONCES_ABI,
    functionName: 'nonces',
    args: [payer.address],
  })
const statesOf = async (jobs: readonly AcceptedJob[]) =>
  (await Promise.all(jobs.map(({ jobId }) => worker.view(jobId)))).map(({ state }) => state)
const runAll = (jobs: readonly AcceptedJob[], settler: Settler = chain.chain.settler) =>
  Promise.all(jobs.map(({ jobId }) => worker.run(jobId, { ...chain.chain, settler })))
const submitPermit = async ({ request: { authorization } }: AcceptedJob) => {
  const { payer: owner, gasSponsoring } = authorization
  if (!gasSponsoring) throw new Error('it has no permit')
  const { amount: value, deadline, signature } = gasSponsoring
  const { rpcUrl, accounts } = worker.devnet
  await sendAs({ address: accounts.recipient.address, rpcUrl }, permitCall({ owner, value, deadline, signature }))
}
it('charges all calls that share a lasting permit in one transaction, which submits the permit once', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  const jobs = await acceptSharing(payer, 6)
  await runAll(jobs, together(6, chain.chain.settler))
  expect(await statesOf(jobs)).toEqual(jobs.map(() => 'completed'))
  expect(new Set((await Promise.all(jobs.map(({ jobId }) => chain.hashes(jobId)))).flat()).size).toBe(1)
  expect(await permitsUsed(payer)).toBe(1n)
  expect(await worker.devnet.permit2Allowance(payer.address)).toBe(VALUE - 6n * CHARGE)
  const later = [...(await acceptSharing(payer, 1)), await chain.accept({ gasSponsored: false }, payer)]
  await runAll(later)
  expect(await statesOf(later)).toEqual(['completed', 'completed'])
  expect(await permitsUsed(payer)).toBe(1n)
})

it('charges calls that share a lasting permit beside an allowance that is left over and suffices for one of them', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  await payer.approve(CHARGE + 1n)
  const jobs = await acceptSharing(payer, 4)
  await runAll(jobs, together(4, chain.chain.settler))
  expect(await statesOf(jobs)).toEqual(jobs.map(() => 'completed'))
  expect(await worker.devnet.permit2Allowance(payer.address)).toBe(VALUE - 3n * CHARGE)
})

it('settles calls that share a lasting permit in halves after their batch reverted as a whole, with the permit in each', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  const jobs = await acceptSharing(payer, 5)
  const gathered = together(5, chain.chain.settler)
  let [sent, relisted]: [number, Promise<void> | undefined] = [0, undefined]
  const settler: Settler = {
    ...gathered,
    broadcast: onceForEach(async (transaction) => {
      sent += 1
      if (sent === 1) await chain.listKey(false)
      return await gathered.broadcast(transaction)
    }),
    confirm: async (...checked) => {
      const confirmation = await gathered.confirm(...checked)
      if (confirmation.outcome === 'batch_reverted') await (relisted ??= chain.listKey(true))
      return confirmation
    },
  }
  await runAll(jobs, settler)
  expect(relisted).toBeDefined()
  expect(await statesOf(jobs)).toEqual(jobs.map(() => 'completed'))
  expect(await permitsUsed(payer)).toBe(1n)
  expect(await worker.devnet.permit2Allowance(payer.address)).toBe(VALUE - 5n * CHARGE)
})

it('submits the permit again with its charge after a reorganization removed both', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  const jobs = await acceptSharing(payer, 2)
  await runAll(jobs, together(2, chain.chain.settler))
  await chain.rpc('anvil_rollback', 1)
  expect([await permitsUsed(payer), await worker.devnet.permit2Allowance(payer.address)]).toEqual([0n, 0n])
  await age(worker, chain.facilitator, 5)
  await until(async () => {
    await chain.keep()
    await chain.watch()
    return (await permitsUsed(payer)) === 1n
  })
  expect(await worker.devnet.permit2Allowance(payer.address)).toBe(VALUE - 2n * CHARGE)
  expect(await statesOf(jobs)).toEqual(['completed', 'completed'])
})

it('charges a call whose lasting permit somebody else submitted before', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  const jobs = await acceptSharing(payer, 2)
  if (jobs[0]) await submitPermit(jobs[0])
  await runAll(jobs)
  expect(await statesOf(jobs)).toEqual(['completed', 'completed'])
  expect(await permitsUsed(payer)).toBe(1n)
})

it('calls no vendor for a call whose lasting permit was used up, or is too low for the calls before it as well', async () => {
  const [revoking, short] = [await createPayer(worker.devnet.rpcUrl), await createPayer(worker.devnet.rpcUrl)]
  const [revoked] = await acceptSharing(revoking, 1)
  if (!revoked) throw new Error('a job was accepted')
  await submitPermit(revoked)
  await revoking.approve(0n)
  await runAll([revoked])
  expect(await worker.view(revoked.jobId)).toMatchObject({
    state: 'failed',
    failure_code: 'permit_already_used',
    attempts: [],
  })
  const [, second] = await acceptSharing(short, 2, 2n * CHARGE - 1n)
  if (!second) throw new Error('two jobs were accepted')
  await runAll([second])
  expect(await worker.view(second.jobId)).toMatchObject({
    state: 'failed',
    failure_code: 'insufficient_funds',
    attempts: [],
  })
  expect(await permitsUsed(short)).toBe(0n)
})

it('calls no vendor for a call whose lasting permit ends before its charge could be collected, unless it is on chain', async () => {
  const now = BigInt(Math.floor(Date.now() / 1000))
  const ending = { permitAmount: VALUE, deadline: now + 3600n, permitDeadline: now + 600n }
  const [relying, approved] = [await createPayer(worker.devnet.rpcUrl), await createPayer(worker.devnet.rpcUrl)]
  const late = await chain.accept(ending, relying)
  const onChain = await chain.accept(ending, approved)
  await submitPermit(onChain)
  for (const { jobId } of [late, onChain]) await worker.run(jobId, { ...chain.chain, settlementMarginMs: 1_200_000 })
  expect(await worker.view(late.jobId)).toMatchObject({
    state: 'failed',
    failure_code: 'authorization_too_short',
    attempts: [],
  })
  expect(await worker.view(onChain.jobId)).toMatchObject({ state: 'completed' })
})

it('calls no vendor for a call with a lasting permit before a call that relies on what is left of the allowance is charged', async () => {
  const payer = await createPayer(worker.devnet.rpcUrl)
  await payer.approve(CHARGE)
  const relying = await chain.accept({ gasSponsored: false }, payer)
  const [sharing] = await acceptSharing(payer, 1)
  if (!sharing) throw new Error('a job was accepted')
  const { promise: sharingHasRun, resolve } = Promise.withResolvers<void>()
  const prepare: Settler['prepare'] = async (...charge) => {
    await sharingHasRun
    return await chain.chain.settler.prepare(...charge)
  }
  const running = worker.run(relying.jobId, { ...chain.chain, settler: { ...chain.chain.settler, prepare } })
  await until(async () => (await worker.view(relying.jobId)).state === 'generated')
  await worker.run(sharing.jobId, chain.chain)
  expect(await worker.view(sharing.jobId)).toMatchObject({ state: 'accepted', attempts: [] })
  resolve()
  await running
  await worker.runNow(sharing.jobId, chain.chain)
  expect(await statesOf([relying, sharing])).toEqual(['completed', 'completed'])
  expect(await permitsUsed(payer)).toBe(1n)
})

it('settles what payers signed for an earlier version of the contract, through that one', async () => {
  const { creationCode, runtimeCodeHash } = JSON.parse(await readFile(EARLIER, 'utf8')) as Record<string, Hex>
  const artifact = { ...(await readSettlementArtifact()), creationCode: creationCode ?? '0x' }
  const owner = worker.devnet.accounts.recipient.address
  const { address, to, data } = settlementDeployment(artifact, { owner, keys: [chain.facilitator] })
  await callRpc(worker.devnet.rpcUrl, 'anvil_impersonateAccount', [owner])
  await callRpc(worker.devnet.rpcUrl, 'anvil_setBalance', [owner, '0xde0b6b3a7640000'])
  const hash = await callRpc<Hex>(worker.devnet.rpcUrl, 'eth_sendTransaction', [{ from: owner, to, data }])
  await chain.untilMined(hash)
  expect(keccak256((await worker.devnet.client.getCode({ address })) ?? '0x')).toBe(runtimeCodeHash)
  const facilitator = address.toLowerCase() as Hex
  const approved = await createPayer(worker.devnet.rpcUrl, { approved: true })
  const jobs = [
    await chain.accept({ facilitator, gasSponsored: false }, approved),
    await chain.accept({ facilitator }),
    await chain.accept({ facilitator, permitAmount: VALUE }),
  ]
  await runAll(jobs)
  // It does not know the last one's permit, so nothing is done for it.
  expect(await statesOf(jobs)).toEqual(['completed', 'completed', 'failed'])
})
