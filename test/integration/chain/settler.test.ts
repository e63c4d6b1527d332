import { encodeFunctionData, erc20Abi, keccak256, parseTransaction, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import { usdcOfWei } from '#shared/money/native-token.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Settler, SignedTransaction } from '#shared/payment/facilitator.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy, withDataFee } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { until } from '../../support/until.ts'

let devnet: TestDevnet
let proxy: RpcProxy
let settler: Settler
let payer: Payer
const createTestSettler = (options?: Parameters<typeof createSettler>[3], timeoutMs = PATIENCE_MS, node = proxy) =>
  createSettler(createChainClient(node.url, timeoutMs), 8453, [devnet.accounts.settlement.privateKey], options)
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  settler = createTestSettler()
  payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 100_000_000n })
  await payer.approve()
})
afterEach(() => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})
const CHARGE = atomicAmount(5000n)
const MAXIMUM = 9000n
const signed = (gasSponsored = false) => signAuthorization(devnet, payer, { gasSponsored, authorizedMaximum: MAXIMUM })
async function transactionFor(authorization: Authorization, charge: AtomicAmount = CHARGE): Promise<SignedTransaction> {
  const prepared = await settler.prepare(authorization, charge)
  if (prepared.outcome !== 'ready') throw new Error(`not ready: ${prepared.outcome}`)
  const { settlement } = devnet.accounts
  const accountNonce = await devnet.client.getTransactionCount({ address: settlement.address })
  return await settler.sign(authorization, charge, prepared.terms, BigInt(accountNonce))
}
/** Waits for the transaction: Anvil answers a broadcast shortly before it has mined it. */
async function mined(hash: `0x${string}`): Promise<void> {
  await devnet.client.waitForTransactionReceipt({ hash })
}
/** Turns a receipt into that of an older node, without the block's time. */
const withoutTime: RpcFault = {
  kind: 'lie',
  change: (truth) => {
    const { logs, ...receipt } = (truth as { result: { logs: Record<string, unknown>[] } }).result
    return { result: { ...receipt, logs: logs.map((log) => ({ ...log, blockTimestamp: undefined })) } }
  },
}
async function received(): Promise<bigint> {
  return await devnet.usdcBalance(devnet.accounts.recipient.address)
}
/** Settles a charge and returns what confirms it. */
async function settled(): Promise<readonly [`0x${string}`, Authorization, AtomicAmount]> {
  const authorization = await signed()
  const transaction = await transactionFor(authorization)
  await settler.broadcast(transaction)
  await mined(transaction.hash)
  return [transaction.hash, authorization, CHARGE]
}
/** Answers as a node that returns receipts of a block that is still being built. */
const listAsLatest = (block: unknown) =>
  proxy.chooseFault(({ method, params }) =>
    (method === 'eth_getBlockByNumber' && params[0] === 'latest') || method === 'eth_blockNumber'
      ? { kind: 'forge', answer: { result: method === 'eth_blockNumber' ? '0x1' : block } }
      : null,
  )
it('reports unreachable when a node hangs at any step', async () => {
  const authorization = await signed()
  const transaction = await transactionFor(authorization)
  // It hangs for good: what this busy process delivers after the client has given up must not reach the node either.
  const hanging = await startRpcProxy(devnet.rpcUrl)
  hanging.setFault({ kind: 'hang' })
  const impatient = createTestSettler({}, 100, hanging)
  const outcomes = await Promise.all([
    impatient.prepare(authorization, CHARGE),
    impatient.broadcast(transaction),
    impatient.confirm(transaction.hash, authorization, CHARGE),
  ])
  await hanging.stop()
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(['unreachable', 'unreachable', 'unreachable'])
})

describe('settling', () => {
  it('transfers exactly the charge, below the signed maximum, and confirms it by its receipt [spec S6b]', async () => {
    const before = await received()
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toEqual({ outcome: 'pending' })
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
    await mined(transaction.hash)
    const confirmation = await settler.confirm(transaction.hash, authorization, CHARGE)
    const block = await devnet.client.getBlock()
    const { gasUsed, effectiveGasPrice } = await devnet.client.getTransactionReceipt({ hash: transaction.hash })
    expect(confirmation).toEqual({
      outcome: 'confirmed',
      blockNumber: block.number,
      blockHash: block.hash,
      blockTimestamp: new Date(Number(block.timestamp) * 1000),
      gas: { gasUsed, effectiveGasPrice, cost: usdcOfWei(gasUsed * effectiveGasPrice, 4000) },
    })
    expect(gasUsed).toBeGreaterThan(80_000n)
    expect((await received()) - before).toBe(CHARGE)
  })

  it('counts the data fee that a rollup’s receipt names beside its gas', async () => {
    const charge = await settled()
    const { gasUsed, effectiveGasPrice } = await devnet.client.getTransactionReceipt({ hash: charge[0] })
    proxy.setFault(withDataFee(77_777_777_777n), 'eth_getTransactionReceipt')
    expect(await createTestSettler().confirm(...charge)).toMatchObject({
      outcome: 'confirmed',
      gas: { gasUsed, effectiveGasPrice, cost: usdcOfWei(gasUsed * effectiveGasPrice + 77_777_777_777n, 4000) },
    })
  })

  it('submits the permit of a payer without gas and allowance', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
    const authorization = await signAuthorization(devnet, poor, { authorizedMaximum: MAXIMUM })
    const transaction = await transactionFor(authorization)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
    expect(await devnet.usdcBalance(poor.address)).toBe(4000n)
  })

  it('settles with a payer whose balance is between charge and maximum', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 5000n })
    const transaction = await transactionFor(await signAuthorization(devnet, poor, { authorizedMaximum: MAXIMUM }))
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
    await mined(transaction.hash)
    expect(await devnet.usdcBalance(poor.address)).toBe(0n)
  })

  it('signs exactly the given account nonce, chain, fees and gas', async () => {
    const authorization = await signed()
    const terms = { maxFeePerGas: 77n, maxPriorityFeePerGas: 7n, gasLimit: 123_456n, submitsPermit: false }
    const { raw, hash } = await settler.sign(authorization, CHARGE, terms, 41n)
    expect(parseTransaction(raw)).toMatchObject({ nonce: 41, chainId: 8453, maxFeePerGas: 77n, gas: 123_456n })
    expect(hash).toBe(keccak256(raw))
    expect(await settler.sign(authorization, CHARGE, terms, 41n)).toEqual({ raw, hash })
  })

  it('reads the account nonce from the chain once and leaves later ones to the ledger', async () => {
    const authorization = await signed()
    const { settlement } = devnet.accounts
    const fresh = createTestSettler()
    const count = await devnet.client.getTransactionCount({ address: settlement.address })
    const first = await fresh.prepare(authorization, CHARGE)
    expect(first).toMatchObject({ outcome: 'ready', minimumAccountNonce: BigInt(count) })
    await callRpc(devnet.rpcUrl, 'anvil_setNonce', [settlement.address, toHex(count + 5)])
    try {
      const second = await fresh.prepare(authorization, CHARGE)
      expect(second).toMatchObject({ outcome: 'ready', minimumAccountNonce: BigInt(count) })
    } finally {
      await callRpc(devnet.rpcUrl, 'anvil_setNonce', [settlement.address, toHex(count)])
    }
  })

  it('keeps a lasting approval when the payment has a permit', async () => {
    const regular = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
    await regular.approve(1_000_000n)
    const authorization = await signAuthorization(devnet, regular, { authorizedMaximum: MAXIMUM })
    const transaction = await transactionFor(authorization)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
    expect(await devnet.permit2Allowance(regular.address)).toBe(1_000_000n - CHARGE)
  })

  it('submits the permit only when the allowance is below the charge', async () => {
    const regular = await createPayer(devnet.rpcUrl, { usdcAtomic: 20_000n })
    await regular.approve(CHARGE)
    const authorization = await signAuthorization(devnet, regular, { authorizedMaximum: MAXIMUM })
    const plain = { terms: { submitsPermit: false, gasLimit: 200_000n } }
    expect(await settler.prepare(authorization, CHARGE)).toMatchObject(plain)
    await regular.approve(CHARGE - 1n)
    const withPermit = { terms: { submitsPermit: true, gasLimit: 300_000n } }
    expect(await settler.prepare(authorization, CHARGE)).toMatchObject(withPermit)
  })

  it('confirms only with the required number of confirmations', async () => {
    const patient = createTestSettler({ confirmations: 3 })
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
    for (const expected of ['pending', 'pending', 'confirmed']) {
      expect(await patient.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: expected })
      await callRpc(devnet.rpcUrl, 'anvil_mine', [])
    }
  })

  it('throws and names the facilitator when its key is not here', async () => {
    const facilitator = privateKeyToAccount(generatePrivateKey()).address
    const authorization = await signAuthorization(devnet, payer, { facilitator })
    const terms = { maxFeePerGas: 1n, maxPriorityFeePerGas: 1n, gasLimit: 1n, submitsPermit: false }
    await expect(settler.sign(authorization, CHARGE, terms, 0n)).rejects.toThrow(facilitator.toLowerCase())
  })
})

describe('preparing a settlement', () => {
  it('prepares a settlement without moving money or using an account nonce', async () => {
    const [before, { settlement }] = [await received(), devnet.accounts]
    const count = await devnet.client.getTransactionCount({ address: settlement.address })
    await settler.prepare(await signed(), CHARGE)
    expect(await received()).toBe(before)
    expect(await devnet.client.getTransactionCount({ address: settlement.address })).toBe(count)
  })

  it('refuses a charge above the signed maximum', async () => {
    expect(await settler.prepare(await signed(), atomicAmount(MAXIMUM + 1n))).toMatchObject({ outcome: 'refused' })
  })

  it('refuses a payer who has moved their funds', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
    const authorization = await signAuthorization(devnet, poor, { authorizedMaximum: MAXIMUM })
    await poor.spend(8000n)
    expect(await settler.prepare(authorization, CHARGE)).toMatchObject({
      outcome: 'refused',
      code: 'insufficient_funds',
    })
  })

  it('refuses an invalidated nonce', async () => {
    const authorization = await signed()
    await payer.invalidateNonce(authorization.nonce)
    expect(await settler.prepare(authorization, CHARGE)).toEqual({ outcome: 'refused', code: 'payment_nonce_used' })
  })

  it.each(['eth_call', 'eth_getTransactionCount', 'eth_feeHistory'])(
    'reports unreachable, never refused, when %s fails while preparing',
    async (method) => {
      const authorization = await signed()
      for (const fault of [{ kind: 'reset' }, { kind: 'error', code: -32603, message: 'internal error' }] as const) {
        proxy.setFault(fault, method)
        // A settler that has cached nothing.
        const fresh = createTestSettler()
        expect(await fresh.prepare(authorization, CHARGE)).toMatchObject({ outcome: 'unreachable' })
      }
    },
  )
})

describe('broadcasting', () => {
  it('reports a used account nonce when a mined transaction is broadcast again, and moves no more money', async () => {
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    const before = await received()
    for (let time = 0; time < 3; time += 1)
      expect(await createTestSettler().broadcast(transaction)).toEqual({ outcome: 'account_nonce_used' })
    expect(await received()).toBe(before)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
  })

  it('succeeds when a pending transaction is broadcast again', async () => {
    await callRpc(devnet.rpcUrl, 'evm_setAutomine', [false])
    try {
      const authorization = await signed()
      const transaction = await transactionFor(authorization)
      expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
      expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
      expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toEqual({ outcome: 'pending' })
      await callRpc(devnet.rpcUrl, 'anvil_mine', [])
      await mined(transaction.hash)
      expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
    } finally {
      await callRpc(devnet.rpcUrl, 'evm_setAutomine', [true])
    }
  })

  it('reports unreachable when the answer to a broadcast is lost, and then confirms the transfer', async () => {
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    const before = await received()
    proxy.setFault({ kind: 'lost_answer' }, 'eth_sendRawTransaction')
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'unreachable' })
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
    expect((await received()) - before).toBe(CHARGE)
  })

  const faults: readonly RpcFault[] = [
    { kind: 'reset' },
    { kind: 'status', status: 502 },
    { kind: 'error', code: -32603, message: 'internal error' },
    { kind: 'invalid_json' },
  ]
  it.each(faults)('reports unreachable when a broadcast fails ($kind), which can be repeated', async (fault) => {
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    proxy.setFault(fault, 'eth_sendRawTransaction')
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'unreachable' })
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toEqual({ outcome: 'pending' })
    proxy.setFault(null)
    expect(await settler.broadcast(transaction)).toMatchObject({ outcome: 'sent' })
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
  })
})

describe('confirming', () => {
  it('distinguishes a reverted transaction from a missing one', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
    const authorization = await signAuthorization(devnet, poor, { authorizedMaximum: MAXIMUM })
    const transaction = await transactionFor(authorization)
    await poor.spend(9000n)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'reverted' })
  })

  it('accepts only a transfer of the charge’s amount, payer, recipient and token as proof', async () => {
    const authorization = await signed()
    const transaction = await transactionFor(authorization)
    await settler.broadcast(transaction)
    await mined(transaction.hash)
    const other = '0x1111111111111111111111111111111111111111'
    const claims: readonly (readonly [Authorization, bigint])[] = [
      [authorization, CHARGE + 1n],
      [authorization, CHARGE - 1n],
      [authorization, MAXIMUM],
      [{ ...authorization, payer: other }, CHARGE],
      [{ ...authorization, payTo: other }, CHARGE],
      [{ ...authorization, asset: other }, CHARGE],
    ]
    for (const [claimed, amount] of claims)
      expect(await settler.confirm(transaction.hash, claimed, atomicAmount(amount))).toMatchObject({
        outcome: 'transfer_missing',
      })
    expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'confirmed' })
  })

  it('does not accept a successful transaction without a transfer as proof', async () => {
    const authorization = await signed()
    const sender = privateKeyToAccount(devnet.accounts.settlement.privateKey)
    const raw = await sender.signTransaction({
      type: 'eip1559',
      chainId: 8453,
      nonce: await devnet.client.getTransactionCount({ address: sender.address }),
      gas: 100_000n,
      maxFeePerGas: 10n ** 10n,
      maxPriorityFeePerGas: 1n,
      to: USDC_ADDRESS,
      data: encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args: [sender.address, 1n] }),
    })
    await settler.broadcast({ raw, hash: keccak256(raw) })
    await mined(keccak256(raw))
    expect(await settler.confirm(keccak256(raw), authorization, CHARGE)).toMatchObject({ outcome: 'transfer_missing' })
  })

  describe('confirming while the network fails', () => {
    const faults = [{ kind: 'reset' }, { kind: 'status', status: 500 }, { kind: 'html' }] as const

    it.each(faults)(
      'reports unreachable, never pending or reverted, when reading the receipt fails with %o',
      async (fault) => {
        const authorization = await signed()
        const transaction = await transactionFor(authorization)
        await settler.broadcast(transaction)
        await mined(transaction.hash)
        proxy.setFault(fault, 'eth_getTransactionReceipt')
        expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'unreachable' })
      },
    )

    it.each(faults)(
      'reports unreachable, never pending or reverted, when reading the block of a receipt without time fails with %o',
      async (fault) => {
        const authorization = await signed()
        const transaction = await transactionFor(authorization)
        await settler.broadcast(transaction)
        await mined(transaction.hash)
        proxy.chooseFault(({ method }) => (method === 'eth_getTransactionReceipt' ? withoutTime : fault))
        expect(await settler.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({ outcome: 'unreachable' })
      },
    )
  })

  it('reads one block for all receipts of a second, whether or not the node puts the time into its logs', async () => {
    const charges = [await settled(), await settled(), await settled()]
    const confirmed = await Promise.all(charges.map((charge) => settler.confirm(...charge)))
    const now = performance.now()
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
    // An older block without a time in the logs is read for its time.
    for (const [fault, blocks] of [[null, 1] as const, [withoutTime, 3] as const]) {
      const fresh = createTestSettler()
      const before = proxy.calls.length
      proxy.chooseFault(({ method }) => (method === 'eth_getTransactionReceipt' ? fault : null))
      for (const index of [2, 1, 0])
        expect(await fresh.confirm(...(charges[index] as (typeof charges)[number]))).toEqual(confirmed[index])
      const methods = proxy.calls.slice(before)
      expect(methods.filter((method) => method === 'eth_getTransactionReceipt')).toHaveLength(3)
      expect(methods.filter((method) => method === 'eth_getBlockByNumber')).toHaveLength(blocks)
    }
    clock.mockRestore()
  })

  describe('while the node lists an earlier block as its latest', () => {
    it('a receipt is pending with one confirmation, until its block is listed', async () => {
      const charge = await settled()
      const fresh = createTestSettler()
      const number = await devnet.client.getBlockNumber()
      listAsLatest(await callRpc(devnet.rpcUrl, 'eth_getBlockByNumber', [`0x${(number - 1n).toString(16)}`, false]))
      expect(await fresh.confirm(...charge)).toEqual({ outcome: 'pending', isMined: true })
      const block = await callRpc<object>(devnet.rpcUrl, 'eth_getBlockByNumber', ['latest', false])
      listAsLatest({ ...block, hash: `0x${'11'.repeat(32)}` })
      expect(await fresh.confirm(...charge)).toEqual({ outcome: 'pending', isMined: true })
      listAsLatest(block)
      expect(await fresh.confirm(...charge)).toMatchObject({ outcome: 'confirmed' })
    })

    it('a reverted receipt is pending as well', async () => {
      const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 9000n })
      const authorization = await signAuthorization(devnet, poor, { authorizedMaximum: MAXIMUM })
      const transaction = await transactionFor(authorization)
      await poor.spend(9000n)
      await settler.broadcast(transaction)
      await mined(transaction.hash)
      const fresh = createTestSettler()
      listAsLatest(await callRpc(devnet.rpcUrl, 'eth_getBlockByNumber', ['0x1', false]))
      expect(await fresh.confirm(transaction.hash, authorization, CHARGE)).toEqual({
        outcome: 'pending',
        isMined: true,
      })
      proxy.chooseFault(() => null)
      const receipt = await devnet.client.getTransactionReceipt({ hash: transaction.hash })
      expect(await fresh.confirm(transaction.hash, authorization, CHARGE)).toMatchObject({
        outcome: 'reverted',
        gas: { gasUsed: receipt.gasUsed, effectiveGasPrice: receipt.effectiveGasPrice },
      })
    })

    it('a remembered block proves nothing about another block of its number', async () => {
      const charge = await settled()
      const fresh = createTestSettler()
      expect(await fresh.confirm(...charge)).toMatchObject({ outcome: 'confirmed' })
      const replaced: RpcFault = {
        kind: 'lie',
        change: (truth) => {
          const { result } = truth as { result: object }
          return { result: { ...result, blockHash: `0x${'22'.repeat(32)}` } }
        },
      }
      proxy.chooseFault(({ method }) => (method === 'eth_getTransactionReceipt' ? replaced : null))
      // The receipt itself is kept only for the other payments of its batch.
      const reread = await until(async () => {
        const confirmation = await fresh.confirm(...charge)
        return confirmation.outcome !== 'confirmed' && confirmation
      })
      expect(reread).toEqual({ outcome: 'pending', isMined: true })
    })
  })
})
