import { fileURLToPath } from 'node:url'
import {
  encodeFunctionData,
  type Hex,
  maxUint256,
  parseAbi,
  parseEventLogs,
  slice,
  toFunctionSelector,
  toHex,
} from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noncesOfBatch } from '#shared/chain/reading/batched-nonces.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { compileSources } from '../../../infra/sandbox/chain/contracts/compile.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import {
  type BatchChain,
  CHARGE,
  encodeOwnCall,
  type Item,
  itemOf,
  type MinedBatch,
  newAddress,
  startBatchChain,
} from '../../support/chain/batch-chain.ts'
import { permitCall } from '../../support/payer/allowance-permit.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type AuthorizationChanges, secondsFromNow, signWitness } from '../../support/payer/sign-authorization.ts'

const VALUE = 500_000n
const ENOUGH_GAS = 250_000n
const TRANSFER_REFUSED = toFunctionSelector('Error(string)')
const USDC_ABI = parseAbi([
  'function nonces(address owner) view returns (uint256)',
  'event Approval(address indexed owner, address indexed spender, uint256 value)',
])
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/farebox-contracts', import.meta.url))

const approvals = ({ receipt }: MinedBatch) =>
  parseEventLogs({ abi: USDC_ABI, eventName: 'Approval', logs: receipt.logs }).map(({ args }) => args.value)
const settledOf = ({ results }: MinedBatch) => results.map(({ settled }) => settled)
const lastingItem = (authorization: Authorization, gas = ENOUGH_GAS) => itemOf(authorization, { gas })

describe('a payment with a lasting permit', () => {
  let chain: BatchChain
  let approved: Payer
  beforeAll(async () => {
    chain = await startBatchChain()
    approved = await createPayer(chain.rpcUrl, { approved: true })
  })
  afterAll(() => chain.stop())

  const signLasting = (payer: Payer, changes: AuthorizationChanges = {}) =>
    chain.signFor(payer, { gasSponsored: true, permitAmount: VALUE, ...changes })
  const permitsUsed = ({ address }: Pick<Payer, 'address'>) =>
    chain.client.readContract({
      address: DEVNET_ADDRESSES.usdc,
      abi: USDC_ABI,
      functionName: 'nonces',
      args: [address],
    })
  const submit = ({ payer, gasSponsoring }: Authorization) => {
    if (!gasSponsoring) throw new Error('it has no permit')
    const { amount: value, deadline, signature } = gasSponsoring
    const { to, data } = permitCall({ owner: payer, value, deadline, signature })
    return chain.send(newAddress(), to, data)
  }

  it('shares its permit with others of one batch: the first submits it, and none of the others does', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const signed = await Promise.all(Array.from({ length: 5 }, () => signLasting(payer)))
    const mined = await chain.settleMany(signed.map((authorization) => lastingItem(authorization)))
    expect(mined.results.map(({ settled, payer: by, nonce }) => ({ settled, by, nonce }))).toEqual(
      signed.map(({ nonce }) => ({ settled: true, by: payer.address, nonce })),
    )
    expect(approvals(mined)).toEqual([VALUE])
    expect(await permitsUsed(payer)).toBe(1n)
    expect(await chain.permit2Allowance(payer.address)).toBe(VALUE - 5n * CHARGE)
    const later = await chain.settleMany([itemOf(await chain.signFor(payer)), lastingItem(await signLasting(payer))])
    expect([settledOf(later), approvals(later)]).toEqual([[true, true], []])
  })

  it('is settled although somebody submitted its permit before', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const authorization = await signLasting(payer)
    expect(await submit(authorization)).toMatchObject({ status: 'success' })
    const mined = await chain.settleMany([lastingItem(authorization)])
    expect([settledOf(mined), approvals(mined)]).toEqual([[true], []])
    expect(await chain.permit2Allowance(payer.address)).toBe(VALUE - CHARGE)
  })

  it('lowers no allowance that suffices', async () => {
    const authorization = await signLasting(approved)
    const mined = await chain.settleMany([lastingItem(authorization)])
    expect([settledOf(mined), approvals(mined)]).toEqual([[true], []])
    expect(await permitsUsed(approved)).toBe(0n)
    expect(await chain.permit2Allowance(approved.address)).toBeGreaterThan(VALUE)
  })

  it('leaves no permit on chain if it cannot be charged, whatever the reason', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const poor = await createPayer(chain.rpcUrl, { usdcAtomic: CHARGE - 1n })
    const used = await signLasting(payer)
    await payer.invalidateNonce(used.nonce)
    const failing = [
      used,
      await signLasting(payer, { deadline: secondsFromNow(-1000), permitDeadline: secondsFromNow(600) }),
      await signLasting(payer, { validAfter: secondsFromNow(100_000) }),
      await signLasting(payer, { authorizedMaximum: CHARGE - 1n }),
      await signLasting(poor),
    ]
    const items = failing.map((authorization) => lastingItem({ ...authorization, facilitator: chain.contract }))
    const mined = await chain.settleMany(items)
    expect(settledOf(mined)).toEqual(failing.map(() => false))
    expect(mined.results.map(({ reason }) => reason)).toEqual([
      toFunctionSelector('InvalidNonce()'),
      toFunctionSelector('SignatureExpired(uint256)'),
      toFunctionSelector('PaymentTooEarly()'),
      toFunctionSelector('AmountExceedsPermitted()'),
      TRANSFER_REFUSED,
    ])
    expect(approvals(mined)).toEqual([])
    for (const owner of [payer, poor])
      expect([await permitsUsed(owner), await chain.permit2Allowance(owner.address)]).toEqual([0n, 0n])
  })

  it('fails alone if its permit is wrong, expired, used before or revoked, and its neighbors pay nothing for it', async () => {
    const neighbors = [await chain.signFor(approved), await chain.signFor(approved)] as const
    const gasOfNeighbors = async (between: readonly Item[]) => {
      const snapshot = await chain.snapshot()
      const [first, last] = neighbors.map((authorization) => itemOf(authorization))
      if (!first || !last) throw new Error('there are two neighbors')
      const { results } = await chain.settleMany([first, ...between, last])
      await chain.revert(snapshot)
      expect(results.map(({ settled }) => settled)).toEqual([true, ...between.map(() => false), true])
      return [results[0]?.gasUsed, results.at(-1)?.gasUsed]
    }
    const [wrong, expired, used, revoked] = await Promise.all([1, 2, 3, 4].map(() => createPayer(chain.rpcUrl)))
    if (!wrong || !expired || !used || !revoked) throw new Error('there are four payers')
    const [ofUsed, ofRevoked] = [await signLasting(used), await signLasting(revoked)]
    for (const [payer, signed] of [
      [used, ofUsed],
      [revoked, ofRevoked],
    ] as const) {
      await submit(signed)
      await payer.approve(payer === used ? CHARGE - 1n : 0n)
    }
    const spoiled = [
      await signLasting(wrong, { permitNonce: 3n }),
      await signLasting(expired, { permitDeadline: secondsFromNow(-1000) }),
      ofUsed,
      ofRevoked,
    ].map((authorization) => lastingItem(authorization))
    // Warm for both: the failing ones touch USDC, Permit2 and the proxy, as the first neighbor does.
    expect(await gasOfNeighbors(spoiled)).toEqual(await gasOfNeighbors([]))
  })

  it('is settled with its permit, or leaves neither, at whichever of its instructions the gas ends', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const authorization = await signLasting(payer)
    const outcomes = new Set<string>()
    for (let gas = 2000n; gas <= 200_000n; gas += 1777n) {
      const snapshot = await chain.snapshot()
      const mined = await chain.settleMany([itemOf(await chain.signFor(approved)), lastingItem(authorization, gas)])
      const isSettled = settledOf(mined)[1]
      expect(settledOf(mined)[0]).toBe(true)
      const isUsed = await chain.isPermit2NonceUsed(payer.address, authorization.nonce)
      const allowance = isSettled ? VALUE - CHARGE : 0n
      expect([isUsed, await permitsUsed(payer), await chain.permit2Allowance(payer.address)]).toEqual([
        isSettled,
        isSettled ? 1n : 0n,
        allowance,
      ])
      outcomes.add(String(isSettled))
      await chain.revert(snapshot)
    }
    expect(outcomes).toEqual(new Set(['true', 'false']))
  })

  it('fails if any of its words is damaged, and its neighbors do not', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const { call } = lastingItem(await signLasting(payer))
    const [first, last] = [itemOf(await chain.signFor(approved)), itemOf(await chain.signFor(approved))]
    for (let word = 0; word < 18; word++) {
      const at = 4 + word * 32
      const flipped = toHex(BigInt(slice(call, at, at + 32)) ^ (maxUint256 >> 1n) ^ 1n, { size: 32 })
      const bytes = `${slice(call, 0, at)}${flipped.slice(2)}${call.slice(2 + 2 * (at + 32))}` as const
      const simulated = await chain.simulateMany([first, { gas: ENOUGH_GAS, call: bytes }, last])
      expect([word, ...simulated.map(({ succeeds }) => succeeds)]).toEqual([word, true, false, true])
    }
  })

  it('is simulated with its permit, of which nothing remains for the next one or on chain', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const wrong = await createPayer(chain.rpcUrl)
    const items = [
      lastingItem(await signLasting(payer)),
      lastingItem(await signLasting(payer)),
      itemOf(await chain.signFor(payer)),
      lastingItem(await signLasting(wrong, { permitNonce: 1n })),
    ]
    const simulated = await chain.simulateMany(items)
    expect(simulated.map(({ succeeds, reason }) => (succeeds ? 'succeeds' : reason))).toEqual([
      'succeeds',
      'succeeds',
      TRANSFER_REFUSED,
      TRANSFER_REFUSED,
    ])
    const data = encodeOwnCall({ functionName: 'simulateMany', args: [items] })
    expect(await chain.send(newAddress(), chain.contract, data)).toMatchObject({ status: 'success', logs: [] })
    expect(await permitsUsed(payer)).toBe(0n)
  })

  it('reverts as a whole for a call that is too short for a permit and a payment, at its position', async () => {
    const { call } = lastingItem(await signLasting(approved))
    for (const end of [4, 4 + 5 * 32, 4 + 15 * 32 - 1]) {
      const args = [[itemOf(await chain.signFor(approved)), { gas: ENOUGH_GAS, call: slice(call, 0, end) }]] as const
      expect(await chain.errorOf({ functionName: 'settleMany', args })).toBe('NotASettlement(1)')
    }
  })

  it('is settled through the contract only: key, owner, payer and strangers cannot call what settles it', async () => {
    const payer = await createPayer(chain.rpcUrl)
    const authorization = await signLasting(payer)
    const { call } = lastingItem(authorization)
    for (const from of [chain.key, chain.owner, payer.address, newAddress()])
      expect(await chain.send(from, chain.contract, call)).toMatchObject({ status: 'reverted', logs: [] })
    const permit = { value: 1n, deadline: 1n, r: toHex(1n, { size: 32 }), s: toHex(1n, { size: 32 }), v: 27 }
    expect(await chain.errorOf({ functionName: 'settleAfterPermit', args: [permit] })).toBe('NotThisContract()')
    expect(await permitsUsed(payer)).toBe(0n)
  })

  it('has its nonce read from the calldata of a batch, as any other payment', async () => {
    const signed = [await signLasting(approved), await chain.signFor(approved)]
    const data = encodeOwnCall({ functionName: 'settleMany', args: [signed.map((each) => itemOf(each))] })
    expect(noncesOfBatch(data).map(({ payer, nonce }) => [payer.toLowerCase(), nonce])).toEqual(
      signed.map(({ payer, nonce }) => [payer, nonce]),
    )
  })

  it('gives a hostile token nothing: what it calls while the permit is submitted is refused, or reverts', async () => {
    const { 'HostileToken.sol': hostile } = await compileSources(
      new URL('solidity/', import.meta.url),
      { 'HostilePayer.sol': 'HostilePayer', 'HostileToken.sol': 'HostileToken' },
      CACHE,
    )
    const [token, other] = [newAddress(), await signLasting(await createPayer(chain.rpcUrl))]
    await callRpc(chain.rpcUrl, 'anvil_setCode', [token, hostile.runtimeBytecode])
    const settles = lastingItem(other)
    const calls: readonly (readonly [Hex, boolean])[] = [
      [encodeOwnCall({ functionName: 'settleMany', args: [[settles]] }), false],
      [settles.call, false],
      [encodeOwnCall({ functionName: 'simulateMany', args: [[settles]] }), true],
    ]
    for (const [data, succeeds] of calls) {
      const { abi } = hostile
      const setCall = encodeFunctionData({ abi, functionName: 'setCall', args: [chain.contract, data] })
      await chain.send(newAddress(), token, setCall)
      const own = await signLasting(approved)
      const terms = { ...own, token, amount: own.authorizedMaximum, to: own.payTo }
      const signature = await signWitness(approved.account, terms)
      const mined = await chain.settleMany([lastingItem({ ...own, asset: token, signature }, 2_000_000n)])
      const called = parseEventLogs({ abi, logs: mined.receipt.logs }) as unknown as readonly {
        args: { succeeds: boolean }
      }[]
      expect(called.map(({ args }) => args.succeeds)).toEqual([succeeds, succeeds])
      expect(await chain.isPermit2NonceUsed(other.payer, other.nonce)).toBe(false)
      expect(await permitsUsed({ address: other.payer })).toBe(0n)
    }
  })
})
