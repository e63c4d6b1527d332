import { concat, encodeAbiParameters, type Hex, pad, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createAllowanceReader } from '#shared/chain/allowance/allowance-reader.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import { createSettlementVerification } from '#shared/chain/verification/settlement-verification.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { unwrapSignature } from '#shared/payment/wallet-signature.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { createContractVerifier } from '../../support/chain/contract-verifier.ts'
import { createDelegatingPayer, placeDelegate } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer, type PayerOfAnyKind } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'
import { createMetaMaskAccount } from '../../support/wallets/delegated-wallet.ts'
import { createSafe, freshKeyOwners } from '../../support/wallets/safe-wallet.ts'
import { WALLET_KINDS } from '../../support/wallets/wallet-kinds.ts'

const MAXIMUM = atomicAmount(5034n)
const VALID = { outcome: 'valid', needsPermit: false }
const [CALL, TRACE, CODE] = ['eth_call', 'eth_createAccessList', 'eth_getCode']
const UNKNOWN_METHOD: RpcFault = { kind: 'error', code: -32601, message: 'the method does not exist' }

let devnet: TestDevnet
let proxy: RpcProxy
let contract: Hex
beforeAll(async () => {
  devnet = await startTestDevnet()
  proxy = await startRpcProxy(devnet.rpcUrl)
  const { settlement } = devnet.accounts
  const owner = privateKeyToAccount(generatePrivateKey()).address
  const address = await deploySettlementContract(devnet.rpcUrl, { owner, keys: [settlement.address] })
  contract = address.toLowerCase() as Hex
})
afterEach(() => proxy.setFault(null))
afterAll(async () => {
  await proxy.stop()
  await devnet.stop()
})

/** Ways to settle, of which one differs for workers: each with a new verifier that allows the known wallets and what was added. */
const WAYS = {
  'the settlement contract': (allowedDelegates: readonly Hex[] | null = []) => ({
    facilitator: contract,
    verifier: createContractVerifier({ rpcUrl: proxy.url, contract, allowedDelegates }),
  }),
  'the settlement contract, after their acceptance': (allowedDelegates: readonly Hex[] | null = []) => ({
    facilitator: contract,
    verifier: createContractVerifier({ rpcUrl: proxy.url, contract, allowedDelegates, areAccepted: true }),
  }),
  'a key': (allowedDelegates: readonly Hex[] | null = []) => {
    const client = createChainClient(proxy.url, PATIENCE_MS)
    const payerCode = createPayerCodePolicy(client, allowedDelegates)
    return {
      facilitator: devnet.accounts.settlement.address,
      verifier: createAuthorizationVerifier(client, 8453, { payerCode }),
    }
  },
} as const
const EACH_WAY = Object.entries(WAYS)

const sign = (wallet: PayerOfAnyKind, facilitator: Hex) =>
  signAuthorization(devnet, wallet, { gasSponsored: false, facilitator })

/** Verifies a payment, and returns the answer with the methods that were called, sorted. */
async function verify(verifier: AuthorizationVerifier, authorization: Authorization) {
  const before = proxy.calls.length
  const verification = await verifier.verify(authorization, MAXIMUM)
  return { verification, calls: proxy.calls.slice(before).toSorted() }
}

const changed = (authorization: Authorization, change: (signature: Hex) => Hex): Authorization => ({
  ...authorization,
  signature: change(authorization.signature),
})
/** A signature of the same length that nobody made. */
const madeUp = (signature: Hex): Hex => `0x${'1b'.repeat((signature.length - 2) / 2)}`

describe.each(EACH_WAY)('payments that settle through %s', (way, start) => {
  it.each(WALLET_KINDS)('accepts $name: by two calls, once it is known', async ({ create }) => {
    const { verifier, facilitator } = start()
    const wallet = await create(devnet.rpcUrl, { approved: true })
    const signedBy = verifier.isSignedByPayer(await sign(wallet, facilitator))
    expect((await verify(verifier, await sign(wallet, facilitator))).verification).toEqual(VALID)
    const again = await verify(verifier, await sign(wallet, facilitator))
    // A delegation may change, and only the contract's simulation returns it.
    const codeCalls = signedBy === 'key' && way === 'a key' ? [CODE] : []
    expect(again).toEqual({ verification: VALID, calls: [CALL, TRACE, ...codeCalls].toSorted() })
  })

  it('asks about the code of a new contract wallet once', async () => {
    const { verifier, facilitator } = start()
    const wallet = await createSafe(devnet.rpcUrl, { approved: true })
    const { calls } = await verify(verifier, await sign(wallet, facilitator))
    // After its acceptance a simulation among others finds out first that it has code.
    expect(calls).toEqual([...(way.includes('acceptance') ? [CALL] : []), CALL, TRACE, CODE])
  })

  it('adds no call for an account without code, whatever wallets are allowed', async () => {
    const payer = await createPayer(devnet.rpcUrl, { approved: true })
    const seen = []
    for (const allowed of [null, []]) {
      const { verifier, facilitator } = start(allowed)
      seen.push(await verify(verifier, await sign(payer, facilitator)))
    }
    const calls = way === 'a key' ? [CALL, CODE] : [CALL]
    expect(seen).toEqual([
      { verification: VALID, calls },
      { verification: VALID, calls },
    ])
  })

  it('refuses every wallet with code when none is allowed, without a call where no key signed', async () => {
    const { verifier, facilitator } = start(null)
    const authorization = await sign(await createSafe(devnet.rpcUrl, { approved: true }), facilitator)
    expect(verifier.isSignedByPayer(authorization)).toBe('no')
  })

  it('names the contract that a genuine wallet asks and that is not known', async () => {
    const handler = await placeDelegate(devnet.rpcUrl)
    const { verifier, facilitator } = start()
    const wallet = await createSafe(devnet.rpcUrl, { approved: true, handler })
    const { verification } = await verify(verifier, await sign(wallet, facilitator))
    expect(verification).toMatchObject({ code: 'payer_has_code', detail: expect.stringContaining(handler) })
    const allowing = start([handler])
    expect((await verify(allowing.verifier, await sign(wallet, facilitator))).verification).toEqual(VALID)
  })

  it('refuses a wallet whose owner is another wallet: its code is not known at that address', async () => {
    const { verifier, facilitator } = start()
    const inner = await createSafe(devnet.rpcUrl)
    const outer = await createSafe(devnet.rpcUrl, { approved: true, owners: [inner.asOwner()] })
    const { verification } = await verify(verifier, await sign(outer, facilitator))
    expect(verification).toMatchObject({ code: 'payer_has_code', detail: expect.stringContaining(inner.address) })
  })

  it('refuses a signature that the wallet does not take, as such, and then takes its own', async () => {
    const { verifier, facilitator } = start()
    const wallet = await createSafe(devnet.rpcUrl, { approved: true, owners: freshKeyOwners(2) })
    const authorization = await sign(wallet, facilitator)
    const forged = changed(authorization, madeUp)
    expect(verifier.isSignedByPayer(forged)).toBe('ask_chain')
    expect((await verify(verifier, forged)).verification).toMatchObject({ code: 'payment_signature_invalid' })
    expect((await verify(verifier, authorization)).verification).toEqual(VALID)
    const other = await sign(await createSafe(devnet.rpcUrl), facilitator)
    const borrowed = changed(authorization, () => other.signature)
    expect((await verify(verifier, borrowed)).verification).toMatchObject({ code: 'payment_signature_invalid' })
  })

  it('refuses a signature of another key for an account without code, as one of no wallet', async () => {
    const { verifier, facilitator } = start()
    const [payer, stranger] = [await createPayer(devnet.rpcUrl, { approved: true }), await createPayer(devnet.rpcUrl)]
    const authorization = await sign({ ...payer, account: stranger.account }, facilitator)
    expect(verifier.isSignedByPayer(authorization)).toBe('ask_chain')
    expect((await verify(verifier, authorization)).verification).toMatchObject({ code: 'payer_not_deployed' })
  })

  it('judges a wallet only while the node lists what runs: an account without code pays without it', async () => {
    const { verifier, facilitator } = start()
    const wallet = await createSafe(devnet.rpcUrl, { approved: true })
    const payer = await createPayer(devnet.rpcUrl, { approved: true })
    proxy.setFault(UNKNOWN_METHOD, TRACE)
    const { verification } = await verify(verifier, await sign(wallet, facilitator))
    expect(verification).toMatchObject({ outcome: 'unreachable', detail: expect.stringContaining('no money moved') })
    expect((await verify(verifier, await sign(payer, facilitator))).verification).toEqual(VALID)
    proxy.setFault(null)
    expect((await verify(verifier, await sign(wallet, facilitator))).verification).toEqual(VALID)
  })

  it('refuses a check that costs more gas than a settlement pays for', async () => {
    const { verifier, facilitator } = start()
    const wallet = await createSafe(devnet.rpcUrl, { approved: true })
    const authorization = await sign(wallet, facilitator)
    // A Safe reads no further than its owners' signatures, so these bytes are only paid for.
    const padded = changed(authorization, (signature) => concat([signature, `0x${'01'.repeat(2500)}`]))
    const { verification } = await verify(verifier, padded)
    expect(verification).toMatchObject({ code: 'payer_has_code', detail: expect.stringContaining('64000') })
    expect((await verify(verifier, authorization)).verification).toEqual(VALID)
  })

  it('says which funds are missing before it says anything of the code', async () => {
    const { verifier, facilitator } = start()
    const handler = await placeDelegate(devnet.rpcUrl)
    const poor = await createSafe(devnet.rpcUrl, { approved: true, usdcAtomic: 1n, handler })
    expect((await verify(verifier, await sign(poor, facilitator))).verification).toMatchObject({
      code: 'insufficient_funds',
    })
    const unapproved = await createSafe(devnet.rpcUrl)
    expect((await verify(verifier, await sign(unapproved, facilitator))).verification).toMatchObject({
      code: 'permit2_allowance_required',
    })
  })
})

it('leaves a key’s signature alone once its payment is accepted', async () => {
  const client = createChainClient(proxy.url, PATIENCE_MS)
  const settlements = createSettlementVerification(client, { contract, readFees: null })
  const policy = createPayerCodePolicy(client, [])
  const authorization = await sign(await createPayer(devnet.rpcUrl, { approved: true }), contract)
  const { payer, signature } = authorization
  let recoveries = 0
  const signed = {
    payer,
    signature,
    hash: '0x',
    get signedBy() {
      recoveries += 1
      return 'key' as const
    },
  } as const
  const recoveriesOf = async (isAccepted: boolean) => {
    recoveries = 0
    expect(await settlements.verify(authorization, MAXIMUM, { policy, signed, isAccepted })).toEqual(VALID)
    return recoveries
  }
  expect([await recoveriesOf(true), await recoveriesOf(false)]).toEqual([0, 1])
})

describe('what is read of an owner’s code', () => {
  it('is who signs permits, a key whose account delegates to known code too, and why another may not pay', async () => {
    const client = createChainClient(proxy.url, PATIENCE_MS)
    const reader = createAllowanceReader(client, createPayerCodePolicy(client, []))
    const walletOf = async ({ address }: PayerOfAnyKind) => {
      const reading = await reader.readAllowance(address)
      return reading.outcome === 'read' ? reading.wallet : null
    }
    const delegating = await createMetaMaskAccount(devnet.rpcUrl)
    expect(await walletOf(delegating)).toEqual({ hasCode: true, signsPermits: true, refusal: null })
    expect(await walletOf(await createSafe(devnet.rpcUrl))).toEqual({
      hasCode: true,
      signsPermits: false,
      refusal: null,
    })
    expect(await walletOf(await createPayer(devnet.rpcUrl))).toEqual({
      hasCode: false,
      signsPermits: true,
      refusal: null,
    })
    const unknown = await createDelegatingPayer(devnet.rpcUrl)
    expect(await walletOf(unknown)).toEqual({
      hasCode: true,
      signsPermits: false,
      refusal: expect.stringContaining(unknown.delegate),
    })
  })
})

describe('a signature that only the wallet can judge', () => {
  it('is confirmed by the wallet after its payment was settled, and no made-up one is', async () => {
    const { verifier, facilitator } = WAYS['the settlement contract']()
    const wallet = await createSafe(devnet.rpcUrl)
    const authorization = await sign(wallet, facilitator)
    expect(await verifier.askWallet(authorization)).toEqual({ outcome: 'signed' })
    expect(await verifier.askWallet(changed(authorization, madeUp))).toEqual({ outcome: 'not_signed' })
    await wallet.replaceFirstOwner()
    expect(await verifier.askWallet(authorization)).toEqual({ outcome: 'not_signed' })
    proxy.setFault({ kind: 'reset' }, CALL)
    expect(await verifier.askWallet(authorization)).toMatchObject({ outcome: 'unreachable' })
  })

  it.each(['0x', '0x00', `0x${'1b'.repeat(64)}`] as const)(
    'is nobody’s when it is shorter than a key’s: %s',
    async (short) => {
      const { verifier, facilitator } = WAYS['a key']()
      const wallet = await createSafe(devnet.rpcUrl)
      expect(verifier.isSignedByPayer({ ...(await sign(wallet, facilitator)), signature: short })).toBe('no')
    },
  )
})

describe('the envelope of a wallet that may not be deployed', () => {
  const MAGIC = `0x${'6492'.repeat(16)}` as const
  const wrap = (signature: Hex) => {
    const types = [{ type: 'address' }, { type: 'bytes' }, { type: 'bytes' }] as const
    return concat([encodeAbiParameters(types, [pad('0x1', { size: 20 }), '0x1234', signature]), MAGIC])
  }

  it.each([1, 31, 32, 65, 640])('is opened around a signature of %i bytes', (length) => {
    const signature = toHex(new Uint8Array(length).fill(7))
    expect(unwrapSignature(wrap(signature))).toEqual({ signature, isWrapped: true })
  })

  it.each([
    ['no content', MAGIC],
    ['an empty signature', wrap('0x')],
    ['an offset behind its end', concat([`0x${'ff'.repeat(96)}`, MAGIC])],
    ['too few bytes', concat([wrap(`0x${'07'.repeat(65)}`).slice(0, 500) as Hex, MAGIC])],
  ])('is kept with %s', (_, signature) => {
    expect(unwrapSignature(signature)).toEqual({ signature, isWrapped: true })
  })

  it('is not seen where there is none', () => {
    const signature = `0x${'07'.repeat(65)}` as const
    expect(unwrapSignature(signature)).toEqual({ signature, isWrapped: false })
  })
})
