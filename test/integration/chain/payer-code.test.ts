import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { createFeeEstimator } from '#shared/adapters/chain/settlement/fee-estimator.ts'
import { createSettler } from '#shared/adapters/chain/settlement/settler.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/adapters/chain/verification/payer-code.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createDelegatingPayer, type DelegatingPayer, delegateTo } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcCall, type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'

const MAXIMUM = atomicAmount(5034n)

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
    ['is ended by the node', { kind: 'error', code: -32000, message: 'execution aborted (timeout = 5s)' }, PATIENCE_MS],
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
