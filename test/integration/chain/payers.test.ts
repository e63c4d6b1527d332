import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBalanceReader } from '#shared/chain/reading/balance-reader.ts'
import { createPayerFundsReader } from '#shared/chain/reading/payer-funds.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createSettler } from '#shared/chain/settlement/settler.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createDelegatingPayer, type DelegatingPayer, delegateTo } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcCall, type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'

const MAXIMUM = atomicAmount(5034n)

describe('payers with code', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let payer: DelegatingPayer
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
    payer = await createDelegatingPayer(devnet.rpcUrl)
  })

  afterEach(async () => {
    proxy.setFault(null)
    proxy.chooseFault(() => null)
    await payer.setMode('accepts')
  })

  afterAll(async () => {
    await proxy.stop()
    await devnet.stop()
  })

  const signed = (by: Payer = payer) => signAuthorization(devnet, by, { gasSponsored: false })
  /** Returns the verifier and the settler of an operator who allows these delegates. */
  function operatorAllowing(allowed: readonly `0x${string}`[], timeoutMs = PATIENCE_MS) {
    const client = createChainClient(proxy.url, timeoutMs)
    const estimateFees = createFeeEstimator(client)
    const payerCode = createPayerCodePolicy(client, allowed)
    return {
      verifier: createAuthorizationVerifier(client, 8453, { payerCode, readFees: estimateFees }),
      settler: createSettler(client, 8453, [devnet.accounts.settlement.privateKey], { estimateFees }),
    }
  }
  describe('a payer whose account has code', () => {
    it('refuses a delegation that is not allowed with payer_has_code, and names the delegate', async () => {
      for (const allowed of [[], [devnet.accounts.settlement.address.toLowerCase() as `0x${string}`]])
        expect(await operatorAllowing(allowed).verifier.verify(await signed(), MAXIMUM)).toEqual({
          outcome: 'refused',
          code: 'payer_has_code',
          detail: expect.stringContaining(payer.delegate),
        })
    })

    it('refuses every contract account, even one whose code contains an allowed address', async () => {
      const contract = await createPayer(devnet.rpcUrl, { approved: true })
      const { verifier } = operatorAllowing([payer.delegate])
      for (const code of ['0x00', `0x73${payer.delegate.slice(2)}ff`]) {
        await callRpc(devnet.rpcUrl, 'anvil_setCode', [contract.address, code])
        expect(await verifier.verify(await signed(contract), MAXIMUM)).toMatchObject({ code: 'payer_has_code' })
      }
      // No chain has such code.
      proxy.setFault({ kind: 'forge', answer: { result: `0xef0100${payer.delegate.slice(2)}00` } }, 'eth_getCode')
      expect(await verifier.verify(await signed(contract), MAXIMUM)).toMatchObject({ code: 'payer_has_code' })
    })

    it('refuses a payer who delegates after an accepted payment, at the next verification', async () => {
      const ordinary = await createPayer(devnet.rpcUrl, { approved: true })
      const authorization = await signed(ordinary)
      const { verifier } = operatorAllowing([])
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
      await delegateTo(ordinary, payer.delegate)
      expect(await verifier.verify(authorization, MAXIMUM)).toMatchObject({ code: 'payer_has_code' })
    })

    it('accepts and settles the payment of an account that delegates to an allowed contract', async () => {
      const { verifier, settler } = operatorAllowing([payer.delegate])
      const authorization = await signed()
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
      const before = await devnet.usdcBalance(devnet.accounts.recipient.address)
      const prepared = await settler.prepare(authorization, MAXIMUM)
      if (prepared.outcome !== 'ready') throw new Error(prepared.outcome)
      const transaction = await settler.sign(
        authorization,
        MAXIMUM,
        prepared.terms,
        BigInt(await devnet.client.getTransactionCount({ address: devnet.accounts.settlement.address })),
      )
      await settler.broadcast(transaction)
      await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
      expect(await settler.confirm(transaction.hash, authorization, MAXIMUM)).toMatchObject({ outcome: 'confirmed' })
      expect((await devnet.usdcBalance(devnet.accounts.recipient.address)) - before).toBe(MAXIMUM)
    })

    it('reports unreachable when the code cannot be read, although the simulation succeeds', async () => {
      const ordinary = await createPayer(devnet.rpcUrl, { approved: true })
      const { verifier } = operatorAllowing([])
      for (const fault of [{ kind: 'reset' }, { kind: 'forge', answer: { result: null } }] as const) {
        proxy.setFault(fault, 'eth_getCode')
        expect(await verifier.verify(await signed(ordinary), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
      }
    })
  })

  describe('the simulation of a payment by an account with allowed code', () => {
    it('refuses code that needs more gas than the transaction has, before work and before a settlement', async () => {
      await payer.setMode('needs_gas', 400_000n)
      const { verifier, settler } = operatorAllowing([payer.delegate])
      expect(await verifier.verify(await signed(), MAXIMUM)).toEqual({ outcome: 'refused', code: 'payment_rejected' })
      expect(await settler.prepare(await signed(), MAXIMUM)).toEqual({ outcome: 'refused', code: 'payment_rejected' })
      await payer.setMode('needs_gas', 50_000n)
      expect(await verifier.verify(await signed(), MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    })

    it('refuses code that uses all the gas', async () => {
      await payer.setMode('burns_gas')
      const { verifier } = operatorAllowing([payer.delegate])
      expect(await verifier.verify(await signed(), MAXIMUM)).toMatchObject({ code: 'payment_rejected' })
    })

    it('refuses code that reverts with megabytes on a node that lets calls use 300 million gas', async () => {
      await callRpc(devnet.rpcUrl, 'evm_setBlockGasLimit', ['0x11e1a300'])
      await callRpc(devnet.rpcUrl, 'anvil_mine', [])
      await payer.setMode('reverts_with_bytes', 5_600_000n)
      const { verifier, settler } = operatorAllowing([payer.delegate])
      expect(await verifier.verify(await signed(), MAXIMUM)).toMatchObject({ code: 'payment_rejected' })
      expect(await settler.prepare(await signed(), MAXIMUM)).toMatchObject({ code: 'payment_rejected' })
    })

    it('carries the gas limit and the fees of the transaction that will be sent', async () => {
      const calls: RpcCall[] = []
      proxy.chooseFault((call) => {
        if (call.method === 'eth_call') calls.push(call)
        return null
      })
      const sponsored = await createPayer(devnet.rpcUrl)
      const authorization = await signAuthorization(devnet, sponsored, { gasSponsored: true })
      const { verifier, settler } = operatorAllowing([])
      const prepared = await settler.prepare(authorization, MAXIMUM)
      if (prepared.outcome !== 'ready') throw new Error(prepared.outcome)
      await verifier.verify(authorization, MAXIMUM)
      const { maxFeePerGas, maxPriorityFeePerGas, gasLimit } = prepared.terms
      expect(gasLimit).toBe(300_000n)
      const simulated = calls.map(({ params }) => params[0] as Record<string, string>)
      expect(simulated).toHaveLength(4)
      for (const call of simulated)
        expect([call['from'], call['maxFeePerGas'], call['maxPriorityFeePerGas']]).toEqual([
          devnet.accounts.settlement.address.toLowerCase(),
          `0x${maxFeePerGas.toString(16)}`,
          `0x${maxPriorityFeePerGas.toString(16)}`,
        ])
      expect(simulated.map((call) => Number(call['gas'])).toSorted((one, other) => one - other)).toEqual([
        200_000, 200_000, 300_000, 300_000,
      ])
    })

    it('leaves room in both gas limits for what settlements use', async () => {
      for (const gasSponsored of [false, true]) {
        const ordinary = await createPayer(devnet.rpcUrl, { approved: !gasSponsored })
        const authorization = await signAuthorization(devnet, ordinary, { gasSponsored })
        const { settler } = operatorAllowing([])
        const prepared = await settler.prepare(authorization, MAXIMUM)
        if (prepared.outcome !== 'ready') throw new Error(prepared.outcome)
        const count = await devnet.client.getTransactionCount({ address: devnet.accounts.settlement.address })
        const transaction = await settler.sign(authorization, MAXIMUM, prepared.terms, BigInt(count))
        await settler.broadcast(transaction)
        const { gasUsed } = await devnet.client
          .waitForTransactionReceipt({ hash: transaction.hash })
          .then(() => devnet.client.getTransactionReceipt({ hash: transaction.hash }))
        expect(gasUsed * 3n).toBeLessThan(prepared.terms.gasLimit * 2n)
      }
    })

    it('simulates without fees when the settlement key cannot pay them, since the payer is not at fault', async () => {
      const ordinary = await createPayer(devnet.rpcUrl, { approved: true })
      const poor = '0x00000000000000000000000000000000000f0001'
      const authorization = await signAuthorization(devnet, ordinary, { gasSponsored: false, facilitator: poor })
      const { verifier } = operatorAllowing([])
      expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    })
  })

  describe('a simulation that takes too long or returns too much', () => {
    const hangs: RpcFault = { kind: 'hang' }
    const faults: readonly (readonly [string, RpcFault, number])[] = [
      ['never ends', hangs, 300],
      [
        'returns more than the byte limit',
        { kind: 'forge', answer: { result: `0x${'00'.repeat(5_600_000)}` } },
        PATIENCE_MS,
      ],
      [
        'is ended by the node',
        { kind: 'error', code: -32000, message: 'execution aborted (timeout = 5s)' },
        PATIENCE_MS,
      ],
      ['is too long for the node', { kind: 'error', code: -32008, message: 'Response is too big' }, PATIENCE_MS],
    ]
    const excessive = { outcome: 'refused', code: 'payment_rejected', detail: expect.stringContaining('code') }

    it.each(faults)(
      'is the payer’s failure when it %s, their account has code and the network answers',
      async (_, fault, timeoutMs) => {
        const { verifier, settler } = operatorAllowing([payer.delegate], timeoutMs)
        proxy.setFault(fault, 'eth_call')
        expect(await verifier.verify(await signed(), MAXIMUM)).toEqual(excessive)
        expect(await settler.prepare(await signed(), MAXIMUM)).toEqual(excessive)
      },
    )

    it.each(faults)('is the network’s failure when it %s and the account has no code', async (_, fault, timeoutMs) => {
      const ordinary = await createPayer(devnet.rpcUrl, { approved: true })
      const { verifier, settler } = operatorAllowing([payer.delegate], timeoutMs)
      proxy.setFault(fault, 'eth_call')
      expect(await verifier.verify(await signed(ordinary), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
      expect(await settler.prepare(await signed(ordinary), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    })

    it('blames the network when other calls are not answered either', async () => {
      const { settler } = operatorAllowing([payer.delegate], 300)
      proxy.setFault(hangs, 'eth_call', 'eth_getCode')
      expect(await settler.prepare(await signed(), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    })
  })
})

describe('reading a payer’s funds', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let time = 0
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
  })
  afterAll(async () => {
    await proxy.stop()
    await devnet.stop()
  })
  function reader() {
    return createPayerFundsReader(createChainClient(proxy.url, PATIENCE_MS), () => time)
  }
  /** Settles and returns the block. */
  async function settle(authorization: Authorization): Promise<bigint> {
    const client = createChainClient(devnet.rpcUrl, PATIENCE_MS)
    const settler = createSettler(client, 8453, [devnet.accounts.settlement.privateKey])
    const { authorizedMaximum } = authorization
    const prepared = await settler.prepare(authorization, authorizedMaximum)
    if (prepared.outcome !== 'ready') throw new Error(`not settleable: ${prepared.outcome}`)
    const { terms, minimumAccountNonce } = prepared
    const transaction = await settler.sign(authorization, authorizedMaximum, terms, minimumAccountNonce)
    await settler.broadcast(transaction)
    // Anvil answers a broadcast shortly before it has mined the transaction.
    await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
    const confirmation = await settler.confirm(transaction.hash, authorization, authorizedMaximum)
    if (confirmation.outcome !== 'confirmed') throw new Error(`not confirmed: ${confirmation.outcome}`)
    return confirmation.blockNumber
  }

  it('reads balance, allowance and used nonces at one block, with one RPC call', async () => {
    const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 1_000_000n })
    await payer.approve(40_000n)
    const [settled, open] = [await signAuthorization(devnet, payer), await signAuthorization(devnet, payer)]
    const block = await settle(settled)
    const callsBefore = proxy.calls.length
    const reading = await reader().read(settled.payer, [settled.nonce, open.nonce])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
    expect(reading).toEqual({
      outcome: 'read',
      funds: {
        balance: 1_000_000n - settled.authorizedMaximum,
        allowance: 40_000n - settled.authorizedMaximum,
        permitNonce: 0n,
        blockNumber: block,
        usedNonces: new Set([settled.nonce]),
      },
    })
  })

  it('reads several payers with one RPC call, each with its own funds and nonces', async () => {
    const [poor, rich] = [await createPayer(devnet.rpcUrl, { usdcAtomic: 20_000n }), await createPayer(devnet.rpcUrl)]
    await rich.approve(50_000n)
    const [settled, open] = [await signAuthorization(devnet, poor), await signAuthorization(devnet, rich)]
    const blockNumber = await settle(settled)
    const callsBefore = proxy.calls.length
    const funds = reader()
    const nonces = [settled.nonce, open.nonce, open.nonce ^ 1n]
    const readings = [poor, rich, poor].map((payer, index) => funds.read(payer.address, nonces.slice(index)))
    const left = { balance: 20_000n - settled.authorizedMaximum, allowance: 0n, permitNonce: 1n, blockNumber }
    expect(await Promise.all(readings)).toEqual([
      { outcome: 'read', funds: { ...left, usedNonces: new Set([settled.nonce]) } },
      {
        outcome: 'read',
        funds: { balance: 1_000_000n, allowance: 50_000n, permitNonce: 0n, blockNumber, usedNonces: new Set() },
      },
      { outcome: 'read', funds: { ...left, usedNonces: new Set() } },
    ])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
  })

  it('reads a payer with many settling payments apart from others', async () => {
    const [busy, other] = [await createPayer(devnet.rpcUrl), await createPayer(devnet.rpcUrl)]
    const funds = reader()
    const callsBefore = proxy.calls.length
    const nonces = Array.from({ length: 17 }, (_, word) => BigInt(word) << 8n)
    const readings = await Promise.all([funds.read(busy.address, nonces), funds.read(other.address, [])])
    expect(readings.map(({ outcome }) => outcome)).toEqual(['read', 'read'])
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call', 'eth_call'])
  })

  it('returns a block earlier than that of any later settlement', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve()
    const authorization = await signAuthorization(devnet, payer)
    const reading = await reader().read(authorization.payer, [])
    const block = await settle(authorization)
    expect(reading.outcome === 'read' && reading.funds.blockNumber).toBe(block - 1n)
  })

  it('reuses a reading for one second, and reads again until ten have passed since one was needed', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const { payer: address } = await signAuthorization(devnet, payer)
    const funds = reader()
    const readings = async (count: number) => {
      const callsBefore = proxy.calls.length
      const balances = await Promise.all(
        Array.from({ length: count }, async () => (await funds.recent(address))?.balance),
      )
      return { balances, calls: proxy.calls.slice(callsBefore) }
    }
    expect(await readings(1)).toEqual({ balances: [undefined], calls: [] })
    await funds.read(address, [])
    time += 999
    expect(await readings(1)).toEqual({ balances: [1_000_000n], calls: [] })
    time += 1
    expect(await readings(3)).toEqual({ balances: [1_000_000n, 1_000_000n, 1_000_000n], calls: ['eth_call'] })
    time += 8999
    expect(await readings(1)).toEqual({ balances: [1_000_000n], calls: ['eth_call'] })
    time += 1000
    expect(await readings(1)).toEqual({ balances: [undefined], calls: [] })
  })

  it('has no recent reading while the chain does not answer', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const { payer: address } = await signAuthorization(devnet, payer)
    const funds = reader()
    await funds.read(address, [])
    time += 1000
    proxy.setFault({ kind: 'status', status: 500 })
    expect(await funds.recent(address)).toBeNull()
    proxy.setFault(null)
    expect((await funds.recent(address))?.balance).toBe(1_000_000n)
  })

  it('reports unreachable, never zero, when the chain does not answer', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const { payer: address } = await signAuthorization(devnet, payer)
    const faults = [
      { kind: 'reset' },
      { kind: 'status', status: 500 },
      { kind: 'empty' },
      { kind: 'error', code: -32_000, message: 'header not found' },
    ] as const
    for (const fault of faults) {
      proxy.setFault(fault)
      expect((await reader().read(address, [1n])).outcome).toBe('unreachable')
    }
    proxy.setFault(null)
  })
})

describe('reading balances', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
  })
  afterAll(async () => {
    await proxy.stop()
    await devnet.stop()
  })
  const newReader = () => createBalanceReader(createChainClient(proxy.url, PATIENCE_MS))

  it('reads many at once with one RPC call, each its own, in any spelling of the address', async () => {
    const balances = [0n, 5n, 1_000_000n]
    const payers = await Promise.all(balances.map((usdcAtomic) => createPayer(devnet.rpcUrl, { usdcAtomic })))
    const reader = newReader()
    const callsBefore = proxy.calls.length
    const addresses = payers.map(({ address }) => `0x${address.slice(2).toUpperCase()}` as const)
    expect(await Promise.all(addresses.map((address) => reader.readBalance(address)))).toEqual(balances)
    expect(proxy.calls.slice(callsBefore)).toEqual(['eth_call'])
  })

  it('reports payment_network_unavailable for each when the node does not answer', async () => {
    proxy.setFault({ kind: 'status', status: 500 })
    const reader = newReader()
    const addresses = [`0x${'1'.repeat(40)}`, `0x${'2'.repeat(40)}`] as const
    for (const some of [addresses, addresses.slice(1)])
      for (const read of await Promise.allSettled(some.map((address) => reader.readBalance(address)))) {
        const error = read.status === 'rejected' ? read.reason : null
        expect(error).toBeInstanceOf(AppError)
        expect(error).toMatchObject({ code: 'payment_network_unavailable' })
      }
    proxy.setFault(null)
  })
})
