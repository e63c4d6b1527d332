import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createContractVerifier, type EthCall, simulatedEntries } from '../../support/chain/contract-verifier.ts'
import { createDelegatingPayer, type DelegatingPayer, delegateTo } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcCall, type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type AuthorizationChanges, signAuthorization } from '../../support/payer/sign-authorization.ts'
import { until } from '../../support/until.ts'

type Hex = `0x${string}`

const MAXIMUM = atomicAmount(5034n)
const VALID = { outcome: 'valid', needsPermit: false }

let devnet: TestDevnet
let proxy: RpcProxy
let contract: Hex
let delegating: DelegatingPayer
let approved: readonly Payer[]
let calls: RpcCall[]
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  contract = await deployContract()
  delegating = await createDelegatingPayer(devnet.rpcUrl)
  approved = await Promise.all(Array.from({ length: 30 }, () => createPayer(devnet.rpcUrl, { approved: true })))
  watchCalls()
})
afterEach(async () => {
  watchCalls()
  await delegating.setMode('accepts')
})
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

async function deployContract(owner = privateKeyToAccount(generatePrivateKey()).address): Promise<Hex> {
  const { settlement } = devnet.accounts
  const address = await deploySettlementContract(devnet.rpcUrl, { owner, keys: [settlement.address] })
  return address.toLowerCase() as Hex
}

/** Records the calls from now on, and applies the fault that `choose` returns. */
function watchCalls(choose: (call: RpcCall) => RpcFault | null = () => null): void {
  calls = []
  proxy.chooseFault((call) => {
    calls.push(call)
    return choose(call)
  })
}

/** Returns one of the payers with an allowance. */
function payerAt(index: number): Payer {
  const payer = approved[index]
  if (!payer) throw new Error(`there is no payer ${index}`)
  return payer
}

const newVerifier = (changes: Partial<Parameters<typeof createContractVerifier>[0]> = {}) =>
  createContractVerifier({ rpcUrl: proxy.url, contract, ...changes })
const sign = (payer: Payer, changes: AuthorizationChanges = {}) =>
  signAuthorization(devnet, payer, { gasSponsored: false, facilitator: contract, ...changes })
const signAll = (payers: readonly Payer[]) => Promise.all(payers.map((payer) => sign(payer)))
const verifyAll = (verifier: AuthorizationVerifier, payments: readonly Authorization[]) =>
  Promise.all(payments.map((payment) => verifier.verify(payment, MAXIMUM)))
const methods = () => calls.map(({ method }) => method)
const concerns = (call: RpcCall, { address }: Payer) => JSON.stringify(call.params).includes(address.slice(2))
/** A call that several payments share. */
const isShared = (call: RpcCall) => simulatedEntries(call).length > 1
const entryCounts = () => calls.map((call) => simulatedEntries(call).length)

describe('payments to the settlement contract that could be settled now', () => {
  it('takes one RPC call, with or without a permit', async () => {
    const verifier = newVerifier()
    const sponsored = await createPayer(devnet.rpcUrl)
    const payments = await Promise.all([sign(payerAt(0)), sign(sponsored, { gasSponsored: true })])
    expect(await verifier.verify(payments[0], MAXIMUM)).toEqual(VALID)
    expect(methods()).toEqual(['eth_call'])
    expect(await verifier.verify(payments[1], MAXIMUM)).toEqual({ outcome: 'valid', needsPermit: true })
    expect(methods()).toEqual(['eth_call', 'eth_call'])
    expect(await devnet.permit2Allowance(sponsored.address)).toBe(0n)
  })

  it('prefers a lasting allowance to a permit', async () => {
    const payment = await sign(payerAt(0), { gasSponsored: true })
    expect(await newVerifier().verify(payment, MAXIMUM)).toEqual(VALID)
  })

  it('thirty that arrive together share one RPC call', async () => {
    expect(await verifyAll(newVerifier(), await signAll(approved))).toEqual(approved.map(() => VALID))
    expect(methods()).toEqual(['eth_call'])
  })

  it('those that arrive while a call is in progress share the next one', async () => {
    const verifier = newVerifier()
    const [first, others] = [await sign(payerAt(0)), await signAll(approved.slice(1))]
    const held = Promise.withResolvers<void>()
    watchCalls((call) => (concerns(call, payerAt(0)) ? { kind: 'held', until: held.promise } : null))
    const verifications = [verifier.verify(first, MAXIMUM)]
    await until(() => calls.length === 1)
    verifications.push(...others.map((payment) => verifier.verify(payment, MAXIMUM)))
    held.resolve()
    expect(await Promise.all(verifications)).toEqual(approved.map(() => VALID))
    expect(methods()).toEqual(['eth_call', 'eth_call'])
  })

  it('judges each by itself: two payments of one payer whose funds suffice for one', async () => {
    const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 5034n, approved: true })
    expect(await verifyAll(newVerifier(), [await sign(payer), await sign(payer)])).toEqual([VALID, VALID])
    expect(methods()).toEqual(['eth_call'])
  })

  it('verifies payments to a settlement key and to another contract at the same time, each by itself', async () => {
    const other = await deployContract()
    const [first, second] = [payerAt(0), payerAt(1)]
    const settlement = devnet.accounts.settlement.address
    const payments = [
      await sign(first),
      await sign(first, { facilitator: settlement }),
      await sign(second, { facilitator: other }),
    ]
    expect(await verifyAll(newVerifier(), payments)).toEqual([VALID, VALID, VALID])
    expect(calls.flatMap((call) => simulatedEntries(call))).toHaveLength(1)
  })
})

describe('payments that the chain rejects, among thirty good ones', () => {
  it('gives each its own reason, and accepts the others', async () => {
    const [poor, unapproved] = [
      await createPayer(devnet.rpcUrl, { usdcAtomic: 5033n, approved: true }),
      await createPayer(devnet.rpcUrl),
    ]
    const cancelled = await sign(payerAt(0))
    await payerAt(0).invalidateNonce(cancelled.nonce)
    const bad: readonly (readonly [Authorization, string])[] = [
      [await sign(poor), 'insufficient_funds'],
      [await sign(unapproved), 'permit2_allowance_required'],
      [await sign(unapproved, { gasSponsored: true, permitNonce: 9n }), 'payment_rejected'],
      [cancelled, 'payment_nonce_used'],
      [await sign(payerAt(1), { deadline: 1n }), 'payment_rejected'],
      [await sign(payerAt(2), { signer: privateKeyToAccount(generatePrivateKey()) }), 'payment_rejected'],
    ]
    watchCalls()
    const good = await signAll(approved)
    const all = [...good.slice(0, 15), ...bad.map(([payment]) => payment), ...good.slice(15)]
    const verified = await verifyAll(newVerifier(), all)
    expect([...verified.slice(0, 15), ...verified.slice(21)]).toEqual(good.map(() => VALID))
    expect(verified.slice(15, 21)).toMatchObject(bad.map(([, code]) => ({ outcome: 'refused', code })))
    // Two shared calls, a diagnosis of each refused payment, and a second simulation where it found no reason.
    expect(calls.length).toBeLessThanOrEqual(2 + bad.length + 3)
  })

  it('accepts the one good payment among two hundred', async () => {
    const poor = await createPayer(devnet.rpcUrl, { usdcAtomic: 1n, approved: true })
    const payments = await Promise.all(
      Array.from({ length: 200 }, (_, index) => sign(index === 77 ? payerAt(0) : poor)),
    )
    const verified = await verifyAll(newVerifier(), payments)
    expect(verified.filter(({ outcome }) => outcome === 'valid')).toHaveLength(1)
    expect(verified[77]).toEqual(VALID)
    expect(verified[78]).toMatchObject({ code: 'insufficient_funds' })
    expect(calls.filter(isSimulation)).toHaveLength(7)
  })

  it('simulates a payment without an explanation again, alone: one wrong answer rejects nobody', async () => {
    const payment = await sign(payerAt(0))
    await forgeFirstSimulation()
    expect(await newVerifier().verify(payment, MAXIMUM)).toEqual(VALID)
    expect(entryCounts()).toEqual([1, 0, 1])
  })

  it('does not accept a payer who has code by then, which no policy has judged', async () => {
    const payment = await sign(delegating)
    await forgeFirstSimulation()
    expect(await newVerifier().verify(payment, MAXIMUM)).toMatchObject({ outcome: 'refused' })
    expect(entryCounts()).toEqual([1, 0, 1])
  })
})

/** Gives the next simulation the answer for a payer without funds and without code. */
async function forgeFirstSimulation(): Promise<void> {
  const rejected = await sign(await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
  const answer = await callRpc<Hex>(devnet.rpcUrl, 'eth_call', [await callOf(rejected), 'latest'])
  watchCalls((call) =>
    entryCounts().length === 1 && isSimulation(call) ? { kind: 'forge', answer: { result: answer } } : null,
  )
}

const isSimulation = (call: RpcCall) => simulatedEntries(call).length > 0

/** Returns what the node was asked to execute. */
function ethCallOf(call: RpcCall | undefined): EthCall {
  if (!call) throw new Error('there was no such call')
  return call.params[0] as EthCall
}

/** Returns the call with which a verifier simulates this payment. */
async function callOf(payment: Authorization): Promise<EthCall> {
  watchCalls()
  await newVerifier().verify(payment, MAXIMUM)
  return ethCallOf(calls.find(isSimulation))
}

describe('a payer whose account has code, among thirty good payments', () => {
  it('is refused in the shared call, by the policy for delegates', async () => {
    const verified = await verifyAll(newVerifier(), await signAll([delegating, ...approved]))
    const detail = expect.stringContaining(delegating.delegate)
    expect(verified).toEqual([{ outcome: 'refused', code: 'payer_has_code', detail }, ...approved.map(() => VALID)])
    expect(methods()).toEqual(['eth_call'])
  })

  it('is refused when it is a contract, even one whose code contains an allowed address', async () => {
    const account = await createPayer(devnet.rpcUrl, { approved: true })
    const allowedDelegates = [delegating.delegate]
    const { delegate } = delegating
    for (const code of ['0x00', `0x73${delegate.slice(2)}ff`, `0x6001ff${delegate.slice(2)}`]) {
      await callRpc(devnet.rpcUrl, 'anvil_setCode', [account.address, code])
      const verified = await newVerifier({ allowedDelegates }).verify(await sign(account), MAXIMUM)
      expect(verified).toMatchObject({ code: 'payer_has_code' })
    }
  })

  it('is simulated alone when its delegate is allowed, and with others never again', async () => {
    const sender = devnet.accounts.settlement.address.toLowerCase() as Hex
    const verifier = newVerifier({ sender, allowedDelegates: [delegating.delegate] })
    for (const expected of [
      [1, 31],
      [1, 30],
    ]) {
      watchCalls()
      expect(await verifyAll(verifier, await signAll([delegating, ...approved]))).toEqual(
        [delegating, ...approved].map(() => VALID),
      )
      expect(
        entryCounts()
          .filter((count) => count > 0)
          .toSorted((one, two) => one - two),
      ).toEqual(expected)
    }
    const alone = calls.find((call) => simulatedEntries(call).length === 1)
    const { from, gas, maxFeePerGas } = ethCallOf(alone)
    expect([from, maxFeePerGas]).toEqual([sender, expect.stringMatching(/^0x[1-9a-f]/)])
    expect(Number(gas)).toBeLessThan(1_000_000)
  })

  it('is simulated with others again once its account has no code', async () => {
    const payer = await createPayer(devnet.rpcUrl, { approved: true })
    await delegateTo(payer, delegating.delegate)
    const verifier = newVerifier({ allowedDelegates: [delegating.delegate] })
    await verifier.verify(await sign(payer), MAXIMUM)
    await callRpc(devnet.rpcUrl, 'anvil_setCode', [payer.address, '0x'])
    expect(await verifier.verify(await sign(payer), MAXIMUM)).toEqual(VALID)
    watchCalls()
    await verifyAll(verifier, await signAll([payer, ...approved]))
    expect(entryCounts()).toEqual([31])
  })

  it.each([
    ['burns all its gas', 'burns_gas', 0n],
    ['reverts with 50 kB', 'reverts_with_bytes', 50_000n],
    ['reverts with more than fits', 'reverts_with_bytes', 5_600_000n],
    ['needs more gas than the transaction has', 'needs_gas', 400_000n],
  ] as const)('is refused alone when its code %s, and the others are accepted', async (_, mode, parameter) => {
    await delegating.setMode(mode, parameter)
    const verifier = newVerifier({ allowedDelegates: [delegating.delegate] })
    for (let round = 0; round < 2; round += 1) {
      const verified = await verifyAll(verifier, await signAll([delegating, ...approved]))
      expect(verified).toMatchObject([{ outcome: 'refused', code: 'payment_rejected' }, ...approved.map(() => VALID)])
    }
  })

  it('accepts it without fees when the key cannot pay them, since the payer is not at fault', async () => {
    const sender = '0x00000000000000000000000000000000000f0001'
    const verifier = newVerifier({ sender, allowedDelegates: [delegating.delegate] })
    expect(await verifier.verify(await sign(delegating), MAXIMUM)).toEqual(VALID)
  })
})

describe('a shared call that fails', () => {
  const faults: readonly (readonly [string, RpcFault])[] = [
    ['is reset', { kind: 'reset' }],
    ['is refused with 413', { kind: 'status', status: 413 }],
    ['is refused with 429', { kind: 'status', status: 429 }],
    ['ends with an internal error', { kind: 'error', code: -32603, message: 'internal error' }],
    ['runs out of the gas that the node allows', { kind: 'error', code: -32000, message: 'out of gas' }],
    ['reverts', { kind: 'error', code: 3, message: 'execution reverted' }],
    ['takes longer than the node allows', { kind: 'error', code: -32000, message: 'execution aborted (timeout = 5s)' }],
    ['returns nothing', { kind: 'forge', answer: { result: '0x' } }],
    ['returns a web page', { kind: 'html' }],
  ]
  it.each(faults)('verifies each of its payments by itself when it %s', async (_, fault) => {
    const payments = [
      ...(await signAll(approved.slice(0, 5))),
      await sign(await createPayer(devnet.rpcUrl, { usdcAtomic: 0n })),
    ]
    watchCalls((call) => (isShared(call) ? fault : null))
    const verified = await verifyAll(newVerifier(), payments)
    expect(verified.slice(0, 5)).toEqual(payments.slice(0, 5).map(() => VALID))
    expect(verified[5]).toMatchObject({ code: 'insufficient_funds' })
  })

  it('verifies the others although the simulation of one payer does not end', async () => {
    const [slow, others] = [payerAt(0), approved.slice(1)]
    const held = Promise.withResolvers<void>()
    watchCalls((call) => (concerns(call, slow) ? { kind: 'held', until: held.promise } : null))
    const verifier = newVerifier()
    const payments = await signAll(approved)
    const [slowOne, ...verifications] = payments.map((payment) => verifier.verify(payment, MAXIMUM))
    const ended = slowOne?.then(() => 'ended')
    expect(await Promise.all(verifications)).toEqual(others.map(() => VALID))
    expect(await Promise.race([ended, Promise.resolve('still running')])).toBe('still running')
    held.resolve()
    expect(await slowOne).toEqual(VALID)
  })

  it('a call that hangs delays those that come later by moments only', async () => {
    const [slow, others] = [payerAt(0), approved.slice(1)]
    const held = Promise.withResolvers<void>()
    watchCalls((call) => (concerns(call, slow) ? { kind: 'held', until: held.promise } : null))
    const verifier = newVerifier()
    const first = verifier.verify(await sign(slow), MAXIMUM)
    await until(() => calls.length === 1)
    expect(await verifyAll(verifier, await signAll(others))).toEqual(others.map(() => VALID))
    held.resolve()
    expect(await first).toEqual(VALID)
  })

  it('shares smaller calls afterwards, which a node with a limit may allow', async () => {
    const verifier = newVerifier()
    watchCalls((call) => (simulatedEntries(call).length > 8 ? { kind: 'status', status: 413 } : null))
    for (const expected of [[30], [15, 15], [7, 7, 7, 7, 2]]) {
      calls = []
      expect(await verifyAll(verifier, await signAll(approved))).toEqual(approved.map(() => VALID))
      expect(entryCounts().filter((count) => count > 0)).toEqual(expected)
    }
  })

  it('verifies without the contract when the node knows no contract there', async () => {
    const nowhere = privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
    const verifier = newVerifier({ contract: nowhere })
    const payments = await Promise.all(approved.slice(0, 2).map((payer) => sign(payer, { facilitator: nowhere })))
    for (const some of [payments, payments.slice(0, 1)])
      expect(await verifyAll(verifier, some)).toEqual(some.map(() => VALID))
  })

  it('recognizes a payer with code, and asks the policy', async () => {
    watchCalls((call) => (isShared(call) ? { kind: 'status', status: 500 } : null))
    const allowing = newVerifier({ allowedDelegates: [delegating.delegate] })
    const payments = await signAll([delegating, ...approved.slice(0, 2)])
    expect(await verifyAll(allowing, payments)).toEqual([VALID, VALID, VALID])
    expect(await verifyAll(newVerifier(), payments)).toMatchObject([{ code: 'payer_has_code' }, VALID, VALID])
  })
})

describe('a network that fails', () => {
  it.each([
    ['resets the connection', { kind: 'reset' }],
    ['returns 500', { kind: 'status', status: 500 }],
    ['is overloaded', { kind: 'error', code: -32005, message: 'limit exceeded' }],
  ] satisfies readonly (readonly [string, RpcFault])[])('is nobody’s fault when the node %s', async (_, fault) => {
    watchCalls(() => fault)
    const payments = await signAll(approved.slice(0, 3))
    for (const some of [payments.slice(0, 1), payments])
      expect(await verifyAll(newVerifier(), some)).toMatchObject(some.map(() => ({ outcome: 'unreachable' })))
  })

  it('is at fault when the node ends the simulation of a payer without code, and the code when there is some', async () => {
    const aborted: RpcFault = { kind: 'error', code: -32000, message: 'execution aborted (timeout = 5s)' }
    watchCalls((call) => (isSimulation(call) ? aborted : null))
    const verifier = newVerifier({ allowedDelegates: [delegating.delegate] })
    expect(await verifier.verify(await sign(payerAt(0)), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
    const excessive = { outcome: 'refused', code: 'payment_rejected', detail: expect.stringContaining('code') }
    for (let round = 0; round < 2; round += 1)
      expect(await verifier.verify(await sign(delegating), MAXIMUM)).toEqual(excessive)
    watchCalls((call) => (concerns(call, delegating) && isSimulation(call) ? aborted : null))
    expect(await verifyAll(verifier, await signAll([delegating, ...approved]))).toEqual([
      excessive,
      ...approved.map(() => VALID),
    ])
    expect(calls.filter((call) => isShared(call) && concerns(call, delegating))).toEqual([])
  })
})

describe('the fees of the transaction', () => {
  it('are not read for payers without code', async () => {
    const sender = devnet.accounts.settlement.address.toLowerCase() as Hex
    await verifyAll(newVerifier({ sender }), await signAll(approved))
    expect(methods()).toEqual(['eth_call'])
  })

  it('blame nobody when they cannot be read, not even a payer with code', async () => {
    const sender = devnet.accounts.settlement.address.toLowerCase() as Hex
    const verifier = newVerifier({ sender, allowedDelegates: [delegating.delegate] })
    const aborted: RpcFault = { kind: 'error', code: -32000, message: 'execution aborted (timeout = 5s)' }
    watchCalls(({ method }) => (method === 'eth_feeHistory' ? aborted : null))
    expect(await verifier.verify(await sign(delegating), MAXIMUM)).toMatchObject({ outcome: 'unreachable' })
  })
})

describe('a node that gives a call little gas', () => {
  it('verifies each payment by itself, with the gas of its own settlement', async () => {
    const small = await startTestDevnet()
    try {
      await callRpc(small.rpcUrl, 'evm_setBlockGasLimit', ['0x1e8480'])
      await callRpc(small.rpcUrl, 'anvil_mine', [])
      const { recipient, settlement } = small.accounts
      const deployed = await deploySettlementContract(small.rpcUrl, {
        owner: recipient.address,
        keys: [settlement.address],
      })
      const there = deployed.toLowerCase() as Hex
      const payers = await Promise.all(Array.from({ length: 12 }, () => createPayer(small.rpcUrl, { approved: true })))
      const payments = await Promise.all(
        payers.map((payer) => signAuthorization(small, payer, { gasSponsored: false, facilitator: there })),
      )
      const verifier = createContractVerifier({ rpcUrl: small.rpcUrl, contract: there })
      expect(await verifyAll(verifier, payments)).toEqual(payers.map(() => VALID))
    } finally {
      await small.stop()
    }
  })
})
