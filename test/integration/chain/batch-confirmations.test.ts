import { type Hex, keccak256 } from 'viem'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createSettlementSearch } from '#shared/chain/reading/settlement-search.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Confirmation, GasSpent, PreparedCharge } from '#shared/payment/facilitator.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { BATCH_CHARGE, startBatchSettler } from '../../support/chain/batch-settler.ts'
import { createDelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { withDataFee } from '../../support/chain/rpc-proxy.ts'
import { deployTestContract } from '../../support/chain/settlement-contract.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'

const chain = await startBatchSettler()
const { devnet, proxy, sender, other, settler, payer, newSettler, signed, prepared, chargesOf, signBatch, sendBatch } =
  chain
afterEach(() => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
})
afterAll(() => chain.stop())
/** A payer's payments in one batch. */
const MANY = 12
const outcomesOf = (answers: readonly { outcome: string }[]) => answers.map(({ outcome }) => outcome)
const confirmAll = (hash: Hex, charges: readonly PreparedCharge[], by = settler) =>
  Promise.all(charges.map(({ authorization, chargeAmount }) => by.confirm(hash, authorization, chargeAmount)))
const search = () => createSettlementSearch(createChainClient(proxy.url, PATIENCE_MS))
const receipts = () => proxy.calls.filter((method) => method === 'eth_getTransactionReceipt').length
function gasOf(confirmation: Confirmation): GasSpent {
  if (!('gas' in confirmation)) throw new Error(`no gas of a payment that is ${confirmation.outcome}`)
  return confirmation.gas
}
/** Expects that the parts of a batch's payments are all of its gas. */
async function expectWhole(hash: Hex, confirmations: readonly Confirmation[], dataFeeWei = 0n): Promise<void> {
  const { gasUsed, effectiveGasPrice } = await devnet.client.getTransactionReceipt({ hash })
  const parts = confirmations.map(gasOf)
  expect(parts.reduce((sum, part) => sum + part.gasUsed, 0n)).toBe(gasUsed)
  expect(parts.reduce((sum, part) => sum + part.cost, 0n)).toBe(
    usdcOfWei(gasUsed * effectiveGasPrice + dataFeeWei, 4000),
  )
}

describe('confirming the payments of a batch', () => {
  it('confirms each by its own transfer, with and without a permit, and divides the gas among them', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
    const charges = [
      ...(await chargesOf(2)),
      await prepared(await signed(poor, { gasSponsored: true }), atomicAmount(7000n)),
      await prepared(await signed(), atomicAmount(1n)),
    ]
    expect(charges.map(({ terms }) => terms.submitsPermit)).toEqual([false, false, true, false])
    const before = await devnet.usdcBalance(devnet.accounts.recipient.address)
    const hash = await sendBatch(charges)
    const confirmations = await confirmAll(hash, charges)
    const block = await devnet.client.getBlock()
    for (const confirmation of confirmations)
      expect(confirmation).toEqual({
        outcome: 'confirmed',
        blockNumber: block.number,
        blockHash: block.hash,
        blockTimestamp: new Date(Number(block.timestamp) * 1000),
        gas: expect.anything(),
      })
    expect((await devnet.usdcBalance(devnet.accounts.recipient.address)) - before).toBe(17_001n)
    await expectWhole(hash, confirmations)
    // A permit is paid for by the payment that needs it. The first payment warms what all of them touch.
    const [, plain, withPermit] = confirmations.map((confirmation) => gasOf(confirmation).gasUsed)
    expect(withPermit).toBeGreaterThan((plain ?? 0n) + 30_000n)
  })

  it('divides the data fee that a rollup’s receipt names as well', async () => {
    // 0.04 USDC, and a wei that no even division leaves.
    const dataFeeWei = 10n ** 13n + 1n
    const charges = await chargesOf(3)
    const hash = await sendBatch(charges)
    proxy.setFault(withDataFee(dataFeeWei), 'eth_getTransactionReceipt')
    const confirmations = await confirmAll(hash, charges, newSettler())
    expect(outcomesOf(confirmations)).toEqual(['confirmed', 'confirmed', 'confirmed'])
    for (const confirmation of confirmations) expect(gasOf(confirmation).cost).toBeGreaterThan(10_000n)
    await expectWhole(hash, confirmations, dataFeeWei)
  })

  it('tells a payment that failed from the others, and reports its part of the gas', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n, approved: true })
    const [one, other] = await chargesOf(2)
    const failing = await prepared(await signed(poor))
    if (!one || !other) throw new Error('no charges')
    await poor.spendAll()
    const hash = await sendBatch([one, failing, other])
    const confirmations = await confirmAll(hash, [one, failing, other])
    expect(outcomesOf(confirmations)).toEqual(['confirmed', 'reverted', 'confirmed'])
    await expectWhole(hash, confirmations)
  })

  it('does not let one payment prove another of the same payer with the same amount', async () => {
    const charges = await chargesOf(3)
    const cancelled = charges[1]
    if (!cancelled) throw new Error('no charge')
    await payer.invalidateNonce(cancelled.authorization.nonce)
    const hash = await sendBatch(charges)
    expect(outcomesOf(await confirmAll(hash, charges))).toEqual(['confirmed', 'reverted', 'confirmed'])
  })

  it('does not take the transfer of another payment for that of a settled one', async () => {
    const one = await prepared(await signed(), atomicAmount(3000n))
    const other = await prepared(await signed(), atomicAmount(4000n))
    const hash = await sendBatch([one, other])
    const elsewhere = '0x1111111111111111111111111111111111111111'
    const claims: readonly (readonly [Authorization, bigint])[] = [
      [one.authorization, 4000n],
      [other.authorization, 3000n],
      [one.authorization, 3001n],
      [{ ...one.authorization, payTo: elsewhere }, 3000n],
      [{ ...one.authorization, asset: elsewhere }, 3000n],
      [{ ...one.authorization, payer: elsewhere }, 3000n],
      [{ ...one.authorization, nonce: 1n }, 3000n],
    ]
    for (const [claimed, amount] of claims)
      expect(await settler.confirm(hash, claimed, atomicAmount(amount))).toMatchObject({ outcome: 'transfer_missing' })
  })

  it('does not let a batch prove a payment whose payer signed another contract', async () => {
    const hash = await sendBatch(await chargesOf(1))
    const another = await deployTestContract(devnet, [sender])
    const authorization = await signed(payer, { facilitator: another.address })
    expect(await settler.confirm(hash, authorization, BATCH_CHARGE)).toMatchObject({ outcome: 'transfer_missing' })
  })

  it('counts a payment that is twice in a batch as settled once', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    const before = await devnet.usdcBalance(devnet.accounts.recipient.address)
    const hash = await sendBatch([one, one])
    const confirmation = await settler.confirm(hash, one.authorization, BATCH_CHARGE)
    expect(confirmation.outcome).toBe('confirmed')
    await expectWhole(hash, [confirmation])
    expect((await devnet.usdcBalance(devnet.accounts.recipient.address)) - before).toBe(BATCH_CHARGE)
  })

  it('reports batch_reverted when the key was taken off the list, and asks for the list again', async () => {
    const mine = await deployTestContract(devnet, [sender])
    const authorizations = [
      await signed(payer, { facilitator: mine.address }),
      await signed(payer, { facilitator: mine.address }),
    ]
    const charges = await Promise.all(authorizations.map((authorization) => prepared(authorization)))
    await mine.setKey(sender, false)
    const hash = await sendBatch(charges)
    const confirmations = await confirmAll(hash, charges)
    expect(outcomesOf(confirmations)).toEqual(['batch_reverted', 'batch_reverted'])
    const { gasUsed } = await devnet.client.getTransactionReceipt({ hash })
    // It is no payment's: each is told what the whole batch cost.
    for (const confirmation of confirmations) expect(confirmation).toMatchObject({ gas: { gasUsed } })
    const [first] = charges
    expect(first && (await settler.prepare(first.authorization, BATCH_CHARGE))).toEqual({ outcome: 'not_listed' })
  })

  it('is replaced as a whole with higher fees', async () => {
    const charges = await chargesOf(3)
    const client = createChainClient(proxy.url, PATIENCE_MS)
    const accounts = createSettlementAccounts(client, 8453, [devnet.accounts.settlement.privateKey])
    await callRpc(devnet.rpcUrl, 'evm_setAutomine', [false])
    try {
      const transaction = await signBatch(charges)
      await settler.broadcast(transaction)
      const replacement = await accounts.replace(sender, transaction.raw)
      if (!replacement) throw new Error('not replaced')
      expect(await accounts.broadcast(replacement)).toEqual({ outcome: 'sent', wasKnown: false })
      await callRpc(devnet.rpcUrl, 'anvil_mine', [])
      await devnet.client.waitForTransactionReceipt({ hash: replacement.hash })
      expect(outcomesOf(await confirmAll(transaction.hash, charges))).toEqual(['pending', 'pending', 'pending'])
      expect(outcomesOf(await confirmAll(replacement.hash, charges))).toEqual(['confirmed', 'confirmed', 'confirmed'])
    } finally {
      await callRpc(devnet.rpcUrl, 'evm_setAutomine', [true])
    }
  })

  it('lets each payment use all of its gas, also when all others do', async () => {
    const burning = await createDelegatingPayer(devnet.rpcUrl)
    const burningCharges = await chargesOf(20, burning)
    await burning.setMode('burns_gas')
    const [good] = await chargesOf(1)
    if (!good) throw new Error('no charge')
    // The cap of the last one is as high as all others, so nothing after it covers what the call must leave behind.
    const charges = [...burningCharges, good]
    const hash = await sendBatch(charges)
    const confirmations = await confirmAll(hash, charges)
    expect(outcomesOf(confirmations)).toEqual([...burningCharges.map(() => 'reverted'), 'confirmed'])
    for (const confirmation of confirmations.slice(0, -1)) expect(gasOf(confirmation).gasUsed).toBeGreaterThan(180_000n)
    await expectWhole(hash, confirmations)
  })

  it('waits until the block is deep enough', async () => {
    const patient = newSettler({ confirmations: 3 })
    const charges = await chargesOf(2)
    const hash = await sendBatch(charges)
    expect(await confirmAll(hash, charges, patient)).toEqual(charges.map(() => ({ outcome: 'pending', isMined: true })))
    await callRpc(devnet.rpcUrl, 'anvil_mine', ['0x2'])
    expect(outcomesOf(await confirmAll(hash, charges, patient))).toEqual(['confirmed', 'confirmed'])
  })

  it('reports unreachable while the log index contradicts a receipt that reports a failure or nothing', async () => {
    const charges = await chargesOf(2)
    const hash = await sendBatch(charges)
    const changes: readonly ((receipt: { logs: { topics: Hex[] }[]; status: Hex }) => object)[] = [
      (receipt) => ({ ...receipt, logs: [] }),
      (receipt) => ({ ...receipt, logs: [], status: '0x0' }),
      (receipt) => ({ ...receipt, logs: receipt.logs.filter(({ topics }) => topics.length !== 3) }),
    ]
    for (const change of changes) {
      proxy.chooseFault(({ method }) =>
        method === 'eth_getTransactionReceipt'
          ? { kind: 'lie', change: (truth) => ({ result: change((truth as { result: never }).result) }) }
          : null,
      )
      expect(outcomesOf(await confirmAll(hash, charges, newSettler()))).toEqual(['unreachable', 'unreachable'])
    }
  })

  it('reads a receipt once for all payments of a batch, and once more for its index or calldata', async () => {
    const charges = await chargesOf(MANY)
    const failed = charges[3]
    if (!failed) throw new Error('no charge')
    await payer.invalidateNonce(failed.authorization.nonce)
    const hash = await sendBatch(charges)
    const before = proxy.calls.length
    await confirmAll(hash, charges, newSettler())
    const methods = proxy.calls.slice(before)
    expect(methods.filter((method) => method === 'eth_getTransactionReceipt')).toHaveLength(1)
    expect(methods.filter((method) => method === 'eth_getLogs')).toHaveLength(1)
    expect(methods.length).toBeLessThanOrEqual(4)
  })
})

describe('evidence of a payment through the contract', () => {
  it('counts the account nonces of several senders at one block', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    const { authorization } = one
    const count = BigInt(await devnet.client.getTransactionCount({ address: sender }))
    const before = await settler.readEvidence(authorization, [sender, other.address], 'newest')
    const counts = new Map([[sender, count]]).set(other.address, 0n)
    expect(before).toMatchObject({ outcome: 'read', isNonceUsed: false })
    expect('accountNonceCounts' in before && before.accountNonceCounts).toEqual(counts)
    await sendBatch([one])
    const after = await settler.readEvidence(authorization, [sender], 'newest')
    expect(after).toMatchObject({ outcome: 'read', isNonceUsed: true })
    expect('accountNonceCounts' in after && after.accountNonceCounts).toEqual(new Map([[sender, count + 1n]]))
  })

  it('reads the count of a sender once at each block', async () => {
    const authorizations = await Promise.all(Array.from({ length: MANY }, () => signed()))
    const fresh = newSettler()
    const before = proxy.calls.length
    await Promise.all(authorizations.map((authorization) => fresh.readEvidence(authorization, [sender])))
    const counted = proxy.calls.slice(before).filter((method) => method === 'eth_getTransactionCount')
    expect(counted).toHaveLength(1)
  })

  it('judges receipts that are read after the evidence', async () => {
    const charges = await chargesOf(1)
    const hash = await sendBatch(charges)
    const fresh = newSettler()
    const [one] = charges
    if (!one) throw new Error('no charge')
    await confirmAll(hash, charges, fresh)
    const before = receipts()
    await fresh.readEvidence(one.authorization, [sender])
    await confirmAll(hash, charges, fresh)
    expect(receipts()).toBe(before + 1)
  })

  it('lets a transaction be sent again after the evidence', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    const transaction = await signBatch([one])
    expect(await settler.broadcast(transaction)).toEqual({ outcome: 'sent', wasKnown: false })
    await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
    await settler.readEvidence(one.authorization, [sender])
    expect(await settler.broadcast(transaction)).toEqual({ outcome: 'account_nonce_used' })
  })

  it('finds a payment by its own event, not by another payment of the payer in the batch', async () => {
    const charges = await chargesOf(2)
    const [settled, cancelled] = charges
    if (!settled || !cancelled) throw new Error('no charges')
    await payer.invalidateNonce(cancelled.authorization.nonce)
    const fromBlock = await devnet.client.getBlockNumber()
    const hash = await sendBatch(charges)
    expect(await settler.findTransfer([hash], settled.authorization, fromBlock)).toBe('found')
    expect(await settler.findTransfer([hash], cancelled.authorization, fromBlock)).toBe('missing')
    expect(await settler.findTransfer([keccak256(hash)], settled.authorization, fromBlock)).toBe('missing')
    proxy.setFault({ kind: 'reset' }, 'eth_getLogs')
    expect(await settler.findTransfer([hash], settled.authorization, fromBlock)).toBe('unreachable')
  })

  it('finds a payment that a key settled itself', async () => {
    const direct = await signed(payer, { facilitator: sender })
    const { terms } = await prepared(direct)
    const fromBlock = await devnet.client.getBlockNumber()
    const count = await devnet.client.getTransactionCount({ address: sender })
    const transaction = await settler.sign(direct, BATCH_CHARGE, terms, BigInt(count))
    await settler.broadcast(transaction)
    await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
    expect(await settler.findTransfer([transaction.hash], direct, fromBlock)).toBe('found')
  })
})

describe('searching the chain for payments of a lost ledger', () => {
  it('finds each payment of a batch with its own amount, also several of one payer', async () => {
    const charges = await Promise.all(
      [1000n, 2000n, 3000n].map(async (amount) => prepared(await signed(), atomicAmount(amount))),
    )
    const transaction = await sendBatch(charges)
    const { blockNumber } = await devnet.client.getTransactionReceipt({ hash: transaction })
    for (const { authorization, chargeAmount: amount } of charges)
      expect(await search().find(authorization)).toEqual({ outcome: 'settled', transaction, blockNumber, amount })
  })

  it('finds the batch that settled a payment rather than one in which it failed', async () => {
    const [payment, cover] = await chargesOf(2)
    if (!payment || !cover) throw new Error('no charges')
    const transaction = await sendBatch([payment])
    await sendBatch([{ ...payment, chargeAmount: atomicAmount(6000n) }, cover])
    expect(await search().find(payment.authorization)).toMatchObject({
      outcome: 'settled',
      transaction,
      amount: BATCH_CHARGE,
    })
  })

  it('does not take a payment that failed in a batch for settled', async () => {
    const [cancelled, cover] = await chargesOf(2)
    if (!cancelled || !cover) throw new Error('no charges')
    await payer.invalidateNonce(cancelled.authorization.nonce)
    await sendBatch([cancelled, cover])
    expect(await search().find(cancelled.authorization)).toEqual({ outcome: 'cancelled' })
  })

  it('does not believe a contract that the payer did not sign', async () => {
    const [one] = await chargesOf(1)
    if (!one) throw new Error('no charge')
    await sendBatch([one])
    const claimed = { ...one.authorization, facilitator: other.address }
    expect(await search().find(claimed)).toEqual({ outcome: 'unexplained' })
  })
})
