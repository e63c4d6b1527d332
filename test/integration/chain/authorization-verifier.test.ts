import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { createAuthorizationVerifier } from '#shared/adapters/chain/authorization-verifier.ts'
import { createChainClient } from '#shared/adapters/chain/client.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { type AuthorizationChanges, createChainPayer } from '../../support/payer/chain-payer.ts'

let devnet: TestDevnet
let proxy: RpcProxy
let verifier: AuthorizationVerifier
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  verifier = createAuthorizationVerifier(createChainClient(proxy.url, PATIENCE_MS), 8453)
})
afterEach(() => proxy.setFault(null))
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

const MAXIMUM = atomicAmount(5034n)

describe('a payment that could be settled now is valid', () => {
  it('with a gas-sponsoring permit and neither gas nor allowance, by two calls at once', async () => {
    const payer = await createChainPayer(devnet)
    const calls = proxy.calls.length
    expect(await verifier.verify(await payer.sign(), MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: true })
    expect(proxy.calls.length - calls).toBe(2)
    expect(await devnet.permit2Allowance(payer.address)).toBe(0n)
  })

  it('with an allowance and no permit, by one call', async () => {
    const payer = await createChainPayer(devnet)
    await payer.approve()
    const authorization = await payer.sign({ gasSponsored: false })
    const calls = proxy.calls.length
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    expect(proxy.calls.length - calls).toBe(1)
  })

  it('with an allowance and a permit that was used before', async () => {
    const payer = await createChainPayer(devnet)
    await payer.approve()
    const authorization = await payer.sign({ permitNonce: 9n })
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
  })

  it('with exactly the money that it is for', async () => {
    const payer = await createChainPayer(devnet, 5034n)
    expect(await verifier.verify(await payer.sign(), MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: true })
  })

  it('without its permit while the allowance covers exactly the amount, with it below that', async () => {
    const payer = await createChainPayer(devnet)
    await payer.approve(5034n)
    expect(await verifier.verify(await payer.sign(), MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    await payer.approve(5033n)
    expect(await verifier.verify(await payer.sign(), MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: true })
  })
})

async function refusalOf(changes: AuthorizationChanges, funds = 1_000_000n, allowance = true) {
  const payer = await createChainPayer(devnet, funds)
  if (allowance) await payer.approve()
  return await verifier.verify(await payer.sign({ gasSponsored: false, ...changes }), MAXIMUM)
}

describe('a payment that the chain refuses is told why', () => {
  test('one atomic unit too little is insufficient_funds, with both amounts', async () => {
    expect(await refusalOf({}, 5033n)).toEqual({
      outcome: 'refused',
      code: 'insufficient_funds',
      detail: 'The payer holds 0.005033 USDC; 0.005034 USDC is needed.',
    })
  })

  test('no allowance and no permit is permit2_allowance_required', async () => {
    expect(await refusalOf({}, 1_000_000n, false)).toEqual({ outcome: 'refused', code: 'permit2_allowance_required' })
  })

  test('a permit that the token refuses is payment_rejected', async () => {
    expect(await refusalOf({ gasSponsored: true, permitNonce: 9n }, 1_000_000n, false)).toMatchObject({
      outcome: 'refused',
      code: 'payment_rejected',
      detail: expect.stringContaining('gas-sponsoring permit'),
    })
  })

  test('a nonce that was invalidated is payment_nonce_used', async () => {
    const payer = await createChainPayer(devnet)
    const authorization = await payer.sign()
    await payer.invalidateNonce(authorization.nonce)
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'refused', code: 'payment_nonce_used' })
  })

  const rejected: readonly (readonly [string, () => AuthorizationChanges])[] = [
    ['a signature of another key', () => ({ signer: privateKeyToAccount(generatePrivateKey()) })],
    ['a deadline that has passed', () => ({ deadline: 1n })],
    ['a start in the future', () => ({ validAfter: BigInt(Math.floor(Date.now() / 1000) + 3600) })],
    ['a maximum below the amount', () => ({ authorizedMaximum: 5033n })],
  ]
  test.each(rejected)('%s is refused', async (_, changes) => {
    expect(await refusalOf(changes())).toMatchObject({ outcome: 'refused' })
  })
})

const faults: readonly (readonly [string, RpcFault])[] = [
  ['resets the connection', { kind: 'reset' }],
  ['answers and the answer is lost', { kind: 'lost_answer' }],
  ['answers 500', { kind: 'status', status: 500 }],
  ['answers 429', { kind: 'status', status: 429 }],
  ['answers 401', { kind: 'status', status: 401 }],
  ['answers its internal error -32603', { kind: 'error', code: -32603, message: 'internal error' }],
  ['answers that it is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
  ['does not know the method', { kind: 'error', code: -32601, message: 'method not found' }],
  ['answers half a JSON text', { kind: 'invalid_json' }],
  ['answers with a web page', { kind: 'html' }],
  ['answers with nothing', { kind: 'empty' }],
]

describe('a network failure never speaks about the payment: unreachable when the node', () => {
  let good: Authorization
  let bad: Authorization
  beforeAll(async () => {
    good = await (await createChainPayer(devnet)).sign()
    bad = await (await createChainPayer(devnet, 0n)).sign()
  })

  it.each(faults)('%s at the simulation', async (_, fault) => {
    for (const authorization of [good, bad]) {
      // Only once: a diagnosis that follows by mistake would get its answers.
      proxy.setFaultFor(0, 1, fault)
      expect(await verifier.verify(authorization, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    }
  })

  it('is not there at all', async () => {
    const gone = createAuthorizationVerifier(createChainClient('http://127.0.0.1:1'), 8453)
    expect(await gone.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it('never answers', async () => {
    proxy.setFault({ kind: 'hang' })
    const impatient = createAuthorizationVerifier(createChainClient(proxy.url, 100), 8453)
    expect(await impatient.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it.each(faults)('%s at the diagnosis of a refusal', async (_, fault) => {
    proxy.setFaultFor(1, Number.POSITIVE_INFINITY, fault)
    expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it.each([
    [3, 'execution reverted'],
    [-32000, 'execution reverted: 0x756688fe'],
  ])('but a revert, however a node words it (%i %s), is the payment’s', async (code, message) => {
    proxy.setFaultFor(0, 1, { kind: 'error', code, message })
    expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'refused', code: 'insufficient_funds' })
  })
})

describe('whether the payer signed it', () => {
  it('is told without the network', async () => {
    const authorization = await (await createChainPayer(devnet)).sign()
    const calls = proxy.calls.length
    expect(await verifier.isSignedByPayer(authorization)).toBe(true)
    expect(proxy.calls).toHaveLength(calls)
  })

  const changes: readonly (readonly [string, (signed: Authorization) => Partial<Authorization>])[] = [
    ['payer', () => ({ payer: '0x1111111111111111111111111111111111111111' })],
    ['recipient', () => ({ payTo: '0x1111111111111111111111111111111111111111' })],
    ['facilitator', () => ({ facilitator: '0x1111111111111111111111111111111111111111' })],
    ['spender', () => ({ spender: '0x1111111111111111111111111111111111111111' })],
    ['asset', () => ({ asset: '0x1111111111111111111111111111111111111111' })],
    ['maximum', () => ({ authorizedMaximum: atomicAmount(5035n) })],
    ['nonce', ({ nonce }) => ({ nonce: nonce ^ 1n })],
    ['deadline', ({ deadline }) => ({ deadline: deadline + 1n })],
    ['start', () => ({ validAfter: 1n })],
    ['signature', ({ signature }) => ({ signature: flipped(signature, 10) })],
    ['length of the signature', ({ signature }) => ({ signature: signature.slice(0, -2) as `0x${string}` })],
    ['curve point of the signature', () => ({ signature: `0x${'ff'.repeat(65)}` })],
    ['signature down to nothing', () => ({ signature: '0x00' })],
  ]
  it.each(changes)('is denied after any change of the %s', async (_, change) => {
    const signed = await (await createChainPayer(devnet, 0n)).sign()
    expect(await verifier.isSignedByPayer({ ...signed, ...change(signed) })).toBe(false)
  })

  it('depends on the chain it was signed for', async () => {
    const signed = await (await createChainPayer(devnet, 0n)).sign()
    const elsewhere = createAuthorizationVerifier(createChainClient(proxy.url), 1)
    expect(await elsewhere.isSignedByPayer(signed)).toBe(false)
  })
})

function flipped(hex: `0x${string}`, index: number): `0x${string}` {
  const digit = hex[index] === 'a' ? 'b' : 'a'
  return `${hex.slice(0, index)}${digit}${hex.slice(index + 1)}` as `0x${string}`
}
