import { parseTransaction } from 'viem'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { PERMIT_GAS, permitCall } from '#shared/chain/allowance/permit-call.ts'
import { delegateTo, placeDelegate } from '../../support/chain/delegating-payer.ts'
import { createPermitSponsor, type PermitSponsor } from '../../support/chain/permit-sponsor.ts'
import { age, createSettlementChain, LATE_SECONDS, type SettlementChain } from '../../support/chain/settlement-chain.ts'
import { signAllowancePermit } from '../../support/payer/allowance-permit.ts'
import { createPayer, type Payer, unlockPayer } from '../../support/payer/payer.ts'
import { secondsFromNow } from '../../support/payer/sign-authorization.ts'
import { startTestWorker, type TestWorker } from '../../support/processes/test-worker.ts'

let worker: TestWorker
let chain: SettlementChain
let sponsor: PermitSponsor
let payer: Payer
beforeAll(async () => {
  worker = await startTestWorker()
})
beforeEach(async () => {
  chain = await createSettlementChain(worker)
  sponsor = createPermitSponsor(worker, chain)
  payer = await createPayer(worker.devnet.rpcUrl)
})
afterEach(async () => {
  worker.proxy.setFault(null)
  await chain.rpc('evm_setAutomine', true)
  await chain.rpc('anvil_mine')
  await worker.ledger.sql('DELETE FROM settlement_transactions WHERE sponsored_permit_id IS NOT NULL')
  await worker.ledger.sql('DELETE FROM sponsored_permits')
})
afterAll(() => worker.stop())

const killed = () => Promise.reject(new Error('killed'))

/** Sends a call from the payer's own account, as an owner with gas may. */
async function sendAs(owner: Payer, call: { to: `0x${string}`; data: `0x${string}` }): Promise<void> {
  await unlockPayer(owner)
  await chain.rpc('eth_sendTransaction', { from: owner.address, ...call })
}

/** Signs the sponsored permit and mines another transaction before it. */
async function overtaken(submitted: Awaited<ReturnType<typeof signAllowancePermit>>): Promise<string> {
  const allowanceId = await sponsor.request(await signAllowancePermit(payer))
  await sponsor.runKilled({ permits: { ...sponsor.dependencies.permits, broadcast: killed } })
  await sendAs(payer, permitCall(submitted))
  await sponsor.run()
  return allowanceId
}

/** Signs and sends a permit that is not mined; its worker is then dead. */
async function pendingPermit(changes?: Parameters<PermitSponsor['request']>[1]): Promise<string> {
  const allowanceId = await sponsor.request(await signAllowancePermit(payer), changes)
  await chain.rpc('evm_setAutomine', false)
  await sponsor.runKilled({ permits: { ...sponsor.dependencies.permits, confirm: killed } })
  return allowanceId
}

async function keepLate(): Promise<number> {
  await chain.keep()
  await age(worker, chain.facilitator, LATE_SECONDS)
  return await chain.keep()
}

describe('a sponsored permit', () => {
  it('gives Permit2 the allowance of an owner without gas, with an account nonce from the queue of settlements', async () => {
    const first = await chain.accept()
    await worker.run(first.jobId, chain.chain)
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await sponsor.run()
    const second = await chain.accept()
    await worker.run(second.jobId, chain.chain)
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(permit.value)
    const row = await sponsor.row(allowanceId)
    expect(row).toMatchObject({ state: 'confirmed', account_nonce: 1, hashes: [row.transaction_hash] })
    expect(await sponsor.outcome(allowanceId)).toMatchObject({ state: 'confirmed', transaction: row.transaction_hash })
    expect(await worker.view(second.jobId)).toMatchObject({ state: 'completed' })
    expect(await chain.count()).toBe(3)
  })

  it('stores what its transaction cost, which is well below the gas limit', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    await sponsor.run()
    const { transaction_hash: hash, gas_used, gas_wei, gas_cost } = await sponsor.row(allowanceId)
    const receipt = await worker.devnet.client.getTransactionReceipt({ hash: hash as `0x${string}` })
    expect(gas_used).toBe(Number(receipt.gasUsed))
    expect(gas_wei).toBe((receipt.gasUsed * receipt.effectiveGasPrice).toString())
    expect(gas_cost).toBeGreaterThan(0)
    expect(gas_used).toBeGreaterThan(70_000)
    expect(gas_used).toBeLessThan((Number(PERMIT_GAS) * 2) / 3)
  })

  it('offers no more for gas than was reserved, and is not sent when that is less than the base fee', async () => {
    const { baseFeePerGas } = await worker.devnet.client.getBlock()
    const reservedGasWei = PERMIT_GAS * ((baseFeePerGas ?? 0n) + 5n)
    const limited = await sponsor.request(await signAllowancePermit(payer), { reservedGasWei })
    await sponsor.run()
    const [signed] = await worker.ledger.sql<{ raw: `0x${string}` }>(
      'SELECT raw_transaction AS raw FROM settlement_transactions WHERE sponsored_permit_id = $1',
      [limited],
    )
    const { gas = 0n, maxFeePerGas = 0n } = parseTransaction(signed?.raw ?? '0x')
    expect(gas * maxFeePerGas).toBeLessThanOrEqual(reservedGasWei)
    const other = await createPayer(worker.devnet.rpcUrl)
    const unpaid = await sponsor.request(await signAllowancePermit(other), { reservedGasWei: PERMIT_GAS })
    await sponsor.run()
    expect(await sponsor.row(unpaid)).toMatchObject({ state: 'failed', failure_code: 'gas_unavailable', hashes: [] })
  })

  it('is submitted once by several workers', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    await Promise.all(Array.from({ length: 4 }, () => sponsor.run()))
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed' })
    expect(await chain.count()).toBe(1)
  })
})

describe('a worker that is killed', () => {
  it('leaves no account nonce behind when it is killed before the transaction is stored', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    const { permits } = sponsor.dependencies
    await sponsor.runKilled({ permits: { ...permits, sign: killed } })
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'requested', account_nonce: null, hashes: [] })
    await sponsor.run()
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed', account_nonce: 0 })
    expect(await chain.count()).toBe(1)
  })

  it.each([
    ['between store and send', { broadcast: killed }],
    ['between send and confirmation', { confirm: killed }],
  ] as const)('has its transaction sent and confirmed by another one when killed %s', async (_, change) => {
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await sponsor.runKilled({ permits: { ...sponsor.dependencies.permits, ...change } })
    const { state, hashes } = await sponsor.row(allowanceId)
    expect({ state, count: hashes.length }).toEqual({ state: 'signed', count: 1 })
    await sponsor.run()
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed', transaction_hash: hashes[0], hashes })
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(permit.value)
    expect(await chain.count()).toBe(1)
  })

  it('changes nothing once another worker has taken over its permit', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    const { allowances } = worker.ledger
    const [stale] = await allowances.claimAllowances(1, 1)
    if (!stale) throw new Error('nothing is due')
    await sponsor.makeDue()
    await sponsor.run()
    const before = await sponsor.row(allowanceId)
    expect(before.state).toBe('confirmed')
    expect(await allowances.failAllowance(stale, { code: 'permit_rejected', reason: 'late' }, null)).toBe('stale')
    expect(await allowances.releaseAllowance(stale, 0)).toBe('stale')
    expect(await sponsor.row(allowanceId)).toEqual(before)
  })
})

describe('a permit that is not worth gas', () => {
  const cases = [
    ['the owner moved their money away', 'owner_balance_too_low', async () => payer.spendAll()],
    [
      'the owner’s account got code',
      'owner_has_code',
      async () => delegateTo(payer, await placeDelegate(worker.devnet.rpcUrl)),
    ],
    [
      'the owner used its nonce for another permit',
      'permit_already_used',
      async () => sendAs(payer, permitCall(await signAllowancePermit(payer, { value: 0n }))),
    ],
    [
      'the settlement key has too little gas left for settlements',
      'gas_unavailable',
      async () => void (await chain.rpc('anvil_setBalance', chain.facilitator, '0x1')),
    ],
  ] as const
  it.each(cases)('ends without a transaction when %s', async (_, code, happens) => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    await happens()
    await sponsor.run()
    expect(await sponsor.outcome(allowanceId)).toEqual({ state: 'failed', code, transaction: null })
    expect(await sponsor.row(allowanceId)).toMatchObject({ gas_wei: null, hashes: [] })
    expect(await chain.count()).toBe(0)
  })

  it('ends without a transaction when it expires too soon, or is not signed by its owner', async () => {
    const expired = await sponsor.request(await signAllowancePermit(payer, { deadline: secondsFromNow(5) }))
    const other = await createPayer(worker.devnet.rpcUrl)
    const { signature } = await signAllowancePermit(payer)
    const forged = await sponsor.request(await signAllowancePermit(other, { signature }))
    await sponsor.run()
    expect(await sponsor.outcome(expired)).toMatchObject({ code: 'permit_expired', transaction: null })
    expect(await sponsor.row(forged)).toMatchObject({ failure_code: 'permit_rejected', hashes: [] })
    expect((await sponsor.row(forged)).failure_reason).toContain('EIP2612: invalid signature')
  })

  it('is a success without a transaction when somebody else has submitted it', async () => {
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await sendAs(await createPayer(worker.devnet.rpcUrl), permitCall(permit))
    await sponsor.run()
    expect(await sponsor.outcome(allowanceId)).toMatchObject({ state: 'confirmed', transaction: null })
    expect(await sponsor.row(allowanceId)).toMatchObject({ gas_wei: null, hashes: [] })
  })
})

describe('a permit whose transaction has no effect', () => {
  it('is a success that cost gas when the same permit came first', async () => {
    const { deadline } = await signAllowancePermit(payer)
    const allowanceId = await overtaken(await signAllowancePermit(payer, { deadline }))
    expect(await sponsor.outcome(allowanceId)).toMatchObject({ state: 'confirmed', transaction: null })
    expect((await sponsor.row(allowanceId)).gas_cost).toBeGreaterThan(0)
  })

  it('fails with its cost in the ledger when another permit came first', async () => {
    const allowanceId = await overtaken(await signAllowancePermit(payer, { value: 1n }))
    const row = await sponsor.row(allowanceId)
    expect(row).toMatchObject({ state: 'failed', failure_code: 'permit_reverted' })
    expect(row.gas_cost).toBeGreaterThan(0)
    expect(await sponsor.outcome(allowanceId)).toMatchObject({ transaction: row.hashes[0] })
  })
})

describe('a permit in the nonce queue', () => {
  it('is broadcast again unchanged when the node dropped it', async () => {
    const allowanceId = await pendingPermit()
    const { hashes } = await sponsor.row(allowanceId)
    await chain.rpc('anvil_dropTransaction', hashes[0])
    await chain.keep()
    await age(worker, chain.facilitator, 5)
    expect(await chain.keep()).toBe(0)
    await chain.rpc('anvil_mine')
    await sponsor.run()
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed', transaction_hash: hashes[0], hashes })
  })

  it('is replaced with a higher fee within what the API reserves, and either hash confirms it', async () => {
    const simulated = await sponsor.simulate(await signAllowancePermit(payer))
    if (simulated.outcome !== 'valid') throw new Error(simulated.outcome)
    const allowanceId = await pendingPermit({ reservedGasWei: simulated.reservedGasWei })
    expect(await keepLate()).toBe(1)
    await chain.rpc('anvil_mine')
    await sponsor.run()
    const { hashes, ...row } = await sponsor.row(allowanceId)
    expect(hashes).toHaveLength(2)
    expect(row).toMatchObject({ state: 'confirmed', transaction_hash: hashes[1] })
  })

  it('is given up when a higher fee would cost more than was reserved, and its account nonce is filled', async () => {
    const { maxFeePerGas } = await worker.devnet.client.estimateFeesPerGas()
    const allowanceId = await pendingPermit({ reservedGasWei: PERMIT_GAS * maxFeePerGas })
    const { hashes } = await sponsor.row(allowanceId)
    await chain.rpc('anvil_dropTransaction', hashes[0])
    await chain.rpc('anvil_setNextBlockBaseFeePerGas', '0x174876e800')
    await chain.rpc('anvil_mine')
    expect(await keepLate()).toBe(1)
    expect(await chain.keep()).toBe(1)
    await chain.rpc('anvil_mine')
    expect(await chain.count()).toBe(1)
    await sponsor.run()
    const row = await sponsor.row(allowanceId)
    expect(row).toMatchObject({ state: 'failed', failure_code: 'gas_unavailable', gas_used: 21_000, hashes })
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(0n)
  })

  it('is confirmed by a replacement that a worker of an earlier version stored as a filler', async () => {
    const allowanceId = await pendingPermit()
    const [hash] = (await sponsor.row(allowanceId)).hashes
    await chain.signReplacement(hash as `0x${string}`)
    // The earlier version copies every column but the one that it does not know.
    await worker.ledger.sql(
      'UPDATE settlement_transactions SET sponsored_permit_id = NULL WHERE sponsored_permit_id = $1 AND hash <> $2',
      [allowanceId, hash],
    )
    await keepLate()
    await chain.rpc('anvil_mine')
    await sponsor.run()
    const row = await sponsor.row(allowanceId)
    expect(row).toMatchObject({ state: 'confirmed', hashes: [hash] })
    expect(row.transaction_hash).not.toBe(hash)
  })

  it('is signed again for the next account nonce when its own was used elsewhere', async () => {
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await sponsor.runKilled({ permits: { ...sponsor.dependencies.permits, broadcast: killed } })
    await chain.useNonceElsewhere(0)
    await sponsor.run()
    await sponsor.run()
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed', account_nonce: 1 })
    expect(await chain.count()).toBe(2)
  })
})

describe('a reorganization', () => {
  it('opens a confirmed permit again until its transaction is mined again, and then makes it final', async () => {
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await sponsor.run()
    const before = await sponsor.row(allowanceId)
    await chain.rpc('anvil_rollback', 1)
    await chain.rpc('anvil_mine')
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(0n)
    expect(await sponsor.watch()).toBe(1)
    expect(await sponsor.outcome(allowanceId)).toEqual({ state: 'pending' })
    await sponsor.run()
    const after = await sponsor.row(allowanceId)
    expect(after).toMatchObject({
      state: 'confirmed',
      transaction_hash: before.transaction_hash,
      hashes: before.hashes,
    })
    expect(after.block_hash).not.toBe(before.block_hash)
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(permit.value)
    await chain.rpc('anvil_mine', '0x46')
    expect(await sponsor.watch()).toBe(1)
    expect(await sponsor.row(allowanceId)).toMatchObject({ is_final: true })
    expect(await sponsor.watch()).toBe(0)
  })
})

describe('an unreliable node', () => {
  it('leaves a permit unsigned while any of the reads before it does not answer, and submits it afterwards', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    for (const method of ['eth_call', 'eth_getCode', 'eth_feeHistory', 'eth_getBalance', 'eth_getTransactionCount']) {
      // Fees and balances are cached; a fresh sponsor has read nothing.
      const fresh = createPermitSponsor(worker, { ...chain, chain: worker.through(worker.proxy, chain.privateKey) })
      worker.proxy.setFault({ kind: 'reset' }, method)
      const calls = worker.proxy.calls.length
      await fresh.run()
      expect(worker.proxy.calls.slice(calls)).toContain(method)
      expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'requested', account_nonce: null, hashes: [] })
      await sponsor.makeDue()
    }
    worker.proxy.setFault(null)
    await sponsor.run()
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed', account_nonce: 0 })
  })

  it('gives up an unsigned permit after ten minutes without an answer, and takes it again when asked', async () => {
    const permit = await signAllowancePermit(payer)
    const allowanceId = await sponsor.request(permit)
    await worker.ledger.sql("UPDATE sponsored_permits SET requested_at = now() - interval '11 minutes'")
    worker.proxy.setFault({ kind: 'status', status: 503 })
    await sponsor.run()
    const failed = { state: 'failed', code: 'payment_network_unavailable', transaction: null }
    expect(await sponsor.outcome(allowanceId)).toEqual(failed)
    worker.proxy.setFault(null)
    expect(await sponsor.request(permit)).toBe(allowanceId)
    await sponsor.run()
    expect(await sponsor.outcome(allowanceId)).toMatchObject({ state: 'confirmed' })
  })

  it('has one transaction when the answers to its broadcast and its receipts are lost', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    let [sends, receipts] = [0, 0]
    worker.proxy.chooseFault(({ method }) => {
      if (method === 'eth_sendRawTransaction' && ++sends === 1) return { kind: 'lost_answer' }
      if (method === 'eth_getTransactionReceipt' && ++receipts <= 3) return { kind: 'reset' }
      return null
    })
    await sponsor.run()
    worker.proxy.chooseFault(() => null)
    expect((await sponsor.row(allowanceId)).hashes).toHaveLength(1)
    expect(await sponsor.row(allowanceId)).toMatchObject({ state: 'confirmed' })
    expect(await chain.count()).toBe(1)
  })

  it('does not fail a permit by one wrong simulation or a receipt that contradicts the logs', async () => {
    const allowanceId = await sponsor.request(await signAllowancePermit(payer))
    const permitSelector = '0xd505accf'
    let [simulations, receipts] = [0, 0]
    worker.proxy.chooseFault(({ method, params }) => {
      const { data } = (params[0] ?? {}) as { data?: string }
      if (method === 'eth_call' && data?.startsWith(permitSelector) && ++simulations === 1)
        return { kind: 'forge', answer: { error: { code: 3, message: 'execution reverted' } } }
      if (method === 'eth_getTransactionReceipt' && ++receipts <= 2)
        return {
          kind: 'lie',
          change: (truth) =>
            'result' in truth && truth.result ? { result: { ...truth.result, status: '0x0', logs: [] } } : truth,
        }
      return null
    })
    await sponsor.run()
    worker.proxy.chooseFault(() => null)
    expect({ simulations, row: await sponsor.row(allowanceId) }).toMatchObject({
      simulations: 2,
      row: { state: 'confirmed' },
    })
  })
})

describe('an open call of the owner that carries a permit of the same nonce', () => {
  it('settles without its permit when the sponsored one is mined before it is signed', async () => {
    const { jobId } = await worker.accept({ payer, signed: { facilitator: chain.facilitator } })
    await sponsor.request(await signAllowancePermit(payer))
    await sponsor.run()
    await worker.run(jobId, chain.chain)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    const { charge_amount } = await worker.view(jobId)
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(100_000_000n - BigInt(charge_amount ?? 0))
  })

  it('settles by the transaction that submits its permit when that was signed before the sponsored one is mined', async () => {
    const { jobId } = await worker.accept({ payer, signed: { facilitator: chain.facilitator } })
    const { settler } = chain.chain
    await expect(worker.run(jobId, { ...chain.chain, settler: { ...settler, broadcast: killed } })).rejects.toThrow(
      'killed',
    )
    await worker.ledger.sql("UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE id = $1", [jobId])
    // Its account nonce comes after that of the settlement, so it is mined by another key here.
    const other = await createSettlementChain(worker)
    await createPermitSponsor(worker, other).request(await signAllowancePermit(payer))
    await createPermitSponsor(worker, other).run()
    expect(await worker.devnet.permit2Allowance(payer.address)).toBe(100_000_000n)
    const [hash] = await chain.hashes(jobId)
    await worker.run(jobId, chain.chain)
    expect(await worker.view(jobId)).toMatchObject({ state: 'completed', settlements: ['confirmed'] })
    expect(await chain.hashes(jobId)).toEqual([hash])
  })
})
