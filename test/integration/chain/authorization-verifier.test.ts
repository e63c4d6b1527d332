import { numberToHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { permitCall } from '#shared/adapters/chain/allowance/permit-call.ts'
import { createChainClient } from '#shared/adapters/chain/network/client.ts'
import { PERMIT2_ADDRESS } from '#shared/adapters/chain/network/contracts.ts'
import { createAuthorizationVerifier } from '#shared/adapters/chain/verification/authorization-verifier.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, ELSEWHERE } from '../../support/payer/payer.ts'
import { type AuthorizationChanges, secondsFromNow, signAuthorization } from '../../support/payer/sign-authorization.ts'
import { signPermit } from '../../support/payer/sign-permit.ts'

let devnet: TestDevnet
let proxy: RpcProxy
let verifier: AuthorizationVerifier
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  verifier = createAuthorizationVerifier(createChainClient(proxy.url, PATIENCE_MS), 8453)
})
afterEach(() => {
  proxy.setFault(null)
  proxy.chooseFault(() => null)
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

const MAXIMUM = atomicAmount(5034n)

describe('verifying a payment that could be settled now', () => {
  it('accepts a gas-sponsoring permit without gas or allowance, with three concurrent RPC calls', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const calls = proxy.calls.length
    expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
      outcome: 'valid',
      needsPermit: true,
    })
    expect(proxy.calls.slice(calls).sort()).toEqual(['eth_call', 'eth_call', 'eth_getCode'])
    expect(await devnet.permit2Allowance(payer.address)).toBe(0n)
  })

  it('accepts an allowance without a permit, with two concurrent RPC calls', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve()
    const authorization = await signAuthorization(devnet, payer, { gasSponsored: false })
    const calls = proxy.calls.length
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
    expect(proxy.calls.slice(calls).sort()).toEqual(['eth_call', 'eth_getCode'])
  })

  it('accepts an allowance with a permit that was used before', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve()
    const authorization = await signAuthorization(devnet, payer, { permitNonce: 9n })
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: false })
  })

  it('accepts a payer whose balance is exactly the amount', async () => {
    const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 5034n })
    expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
      outcome: 'valid',
      needsPermit: true,
    })
  })

  it('needs the permit only when the allowance is below the amount', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    await payer.approve(5034n)
    expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
      outcome: 'valid',
      needsPermit: false,
    })
    await payer.approve(5033n)
    expect(await verifier.verify(await signAuthorization(devnet, payer), MAXIMUM)).toEqual({
      outcome: 'valid',
      needsPermit: true,
    })
  })
})

async function refusalOf(changes: AuthorizationChanges, funds = 1_000_000n, allowance = true) {
  const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: funds })
  if (allowance) await payer.approve()
  return await verifier.verify(await signAuthorization(devnet, payer, { gasSponsored: false, ...changes }), MAXIMUM)
}

describe('verifying a payment that the chain rejects', () => {
  test('refuses a balance that is one atomic unit too low with insufficient_funds and both amounts', async () => {
    expect(await refusalOf({}, 5033n)).toEqual({
      outcome: 'refused',
      code: 'insufficient_funds',
      detail: 'The payer has 0.005033 USDC; 0.005034 USDC is needed.',
    })
  })

  test('refuses a payment without allowance or permit with permit2_allowance_required', async () => {
    expect(await refusalOf({}, 1_000_000n, false)).toEqual({ outcome: 'refused', code: 'permit2_allowance_required' })
  })

  test('refuses a permit that the token rejects with payment_rejected', async () => {
    expect(await refusalOf({ gasSponsored: true, permitNonce: 9n }, 1_000_000n, false)).toMatchObject({
      outcome: 'refused',
      code: 'payment_rejected',
      detail: expect.stringContaining('gas-sponsoring permit'),
    })
  })

  test('a permit whose nonce another payment has used in the meantime is a wait: permit_already_used', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const stale = await signAuthorization(devnet, payer)
    const permit = { owner: payer.address, value: 1n, deadline: secondsFromNow(600), nonce: 0n }
    const terms = { ...permit, spender: PERMIT2_ADDRESS, amount: permit.value } as const
    const call = permitCall({ ...permit, signature: await signPermit(payer.account, terms) })
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [ELSEWHERE, numberToHex(10n ** 18n)])
    await callRpc(devnet.rpcUrl, 'anvil_impersonateAccount', [ELSEWHERE])
    const hash = await callRpc<`0x${string}`>(devnet.rpcUrl, 'eth_sendTransaction', [{ from: ELSEWHERE, ...call }])
    await devnet.client.waitForTransactionReceipt({ hash })
    expect(await verifier.verify(stale, MAXIMUM)).toEqual({ outcome: 'refused', code: 'permit_already_used' })
  })

  test('refuses an invalidated nonce with payment_nonce_used', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const authorization = await signAuthorization(devnet, payer)
    await payer.invalidateNonce(authorization.nonce)
    expect(await verifier.verify(authorization, MAXIMUM)).toEqual({ outcome: 'refused', code: 'payment_nonce_used' })
  })

  const rejected: readonly (readonly [string, () => AuthorizationChanges])[] = [
    ['a signature of another key', () => ({ signer: privateKeyToAccount(generatePrivateKey()) })],
    ['a deadline that has passed', () => ({ deadline: 1n })],
    ['a start in the future', () => ({ validAfter: BigInt(Math.floor(Date.now() / 1000) + 3600) })],
    ['a maximum below the amount', () => ({ authorizedMaximum: 5033n })],
  ]
  test.each(rejected)('refuses %s', async (_, changes) => {
    expect(await refusalOf(changes())).toMatchObject({ outcome: 'refused' })
  })
})

const faults: readonly (readonly [string, RpcFault])[] = [
  ['resets the connection', { kind: 'reset' }],
  ['loses its response', { kind: 'lost_answer' }],
  ['returns 500', { kind: 'status', status: 500 }],
  ['returns 429', { kind: 'status', status: 429 }],
  ['returns 401', { kind: 'status', status: 401 }],
  ['returns an internal error (-32603)', { kind: 'error', code: -32603, message: 'internal error' }],
  ['reports that it is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
  ['does not know the method', { kind: 'error', code: -32601, message: 'method not found' }],
  ['returns truncated JSON', { kind: 'invalid_json' }],
  ['returns a web page', { kind: 'html' }],
  ['returns an empty body', { kind: 'empty' }],
]

/** Applies a fault to the `first` to the `last` of the following contract calls. */
function failCalls(fault: RpcFault, { first, last = Number.POSITIVE_INFINITY }: { first: number; last?: number }) {
  let count = 0
  proxy.chooseFault(({ method }) => {
    if (method !== 'eth_call') return null
    count += 1
    return count >= first && count <= last ? fault : null
  })
}

describe('verifying while the network fails', () => {
  let good: Authorization
  let bad: Authorization
  beforeAll(async () => {
    good = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    bad = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
  })

  it.each(faults)('reports unreachable when the node %s at the simulation', async (_, fault) => {
    for (const authorization of [good, bad]) {
      // Only once: a wrongly started diagnosis would get its answers.
      failCalls(fault, { first: 1, last: 1 })
      expect(await verifier.verify(authorization, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    }
  })

  it('reports unreachable when nothing listens at the node’s address', async () => {
    const gone = createAuthorizationVerifier(createChainClient('http://127.0.0.1:1'), 8453)
    expect(await gone.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it('reports unreachable when the node never answers', async () => {
    proxy.setFault({ kind: 'hang' })
    const impatient = createAuthorizationVerifier(createChainClient(proxy.url, 100), 8453)
    expect(await impatient.verify(good, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it.each(faults)('reports unreachable when the node %s at the diagnosis of a refusal', async (_, fault) => {
    failCalls(fault, { first: 3 })
    expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })

  it.each([
    [3, 'execution reverted'],
    [-32000, 'execution reverted: 0x756688fe'],
  ])('treats %i "%s" from a node as a revert and refuses the payment', async (code, message) => {
    failCalls({ kind: 'error', code, message }, { first: 1, last: 1 })
    expect(await verifier.verify(bad, MAXIMUM)).toMatchObject({ outcome: 'refused', code: 'insufficient_funds' })
  })
})

describe('checking the signature', () => {
  it('verifies a signature without the network', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    const calls = proxy.calls.length
    expect(verifier.isSignedByPayer(authorization)).toBe(true)
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
    ['signature to a single byte', () => ({ signature: '0x00' })],
  ]
  it.each(changes)('rejects a signature after a change of the %s', async (_, change) => {
    const signed = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
    expect(verifier.isSignedByPayer({ ...signed, ...change(signed) })).toBe(false)
  })

  it('rejects a signature for another chain', async () => {
    const signed = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
    const otherChain = createAuthorizationVerifier(createChainClient(proxy.url), 1)
    expect(otherChain.isSignedByPayer(signed)).toBe(false)
  })
})

function flipped(hex: `0x${string}`, index: number): `0x${string}` {
  const digit = hex[index] === 'a' ? 'b' : 'a'
  return `${hex.slice(0, index)}${digit}${hex.slice(index + 1)}` as `0x${string}`
}
