import { type Hex, hashTypedData, keccak256, parseAbi } from 'viem'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import {
  META_MASK_DELEGATOR,
  PASSKEY_SIGNER,
  placePublished,
  SAFE_CONTRACTS,
  SIMPLE_7702_ACCOUNT,
} from '../../support/wallets/published-code.ts'
import { createSafe, freshKeyOwners } from '../../support/wallets/safe-wallet.ts'
import { WALLET_KINDS } from '../../support/wallets/wallet-kinds.ts'

const ABI = parseAbi(['function isValidSignature(bytes32 hash, bytes signature) view returns (bytes4)'])
const VALID = '0x1626ba7e'
const MESSAGE = {
  domain: { name: 'Permit2', chainId: 8453 },
  types: { Payment: [{ name: 'amount', type: 'uint256' }] },
  primaryType: 'Payment',
  message: { amount: 1n },
} as const
/** `codeHash` of @safe-global/safe-deployments 1.37.63. */
const SAFE_HASHES = {
  '1.3.0': ['0xbba688fbdb21…1c2e', '0x21842597390c…3c0f', '0x03e69f7ce809…1abf'],
  '1.4.1': ['0x1fe2df852ba3…e1c4', '0xb1f926978a0f…81ff', '0x7c6007a5d711…42f9'],
  '1.5.0': ['0xdda019cbd7c8…20f2', '0x180193227186…72dc', '0x3c6a85bcf7b5…8bbc'],
} as const

let devnet: TestDevnet
beforeAll(async () => {
  devnet = await startTestDevnet()
})
afterAll(() => devnet.stop())

async function codeHash(address: Hex): Promise<string> {
  const hash = keccak256(await callRpc<Hex>(devnet.rpcUrl, 'eth_getCode', [address, 'latest']))
  return `${hash.slice(0, 14)}…${hash.slice(-4)}`
}

describe('the code of wallets that packages ship', () => {
  it.each(Object.entries(SAFE_CONTRACTS))(
    'is that of the published contracts of Safe %s',
    async (version, contracts) => {
      const { singleton, layer2Singleton, handler } = contracts
      const all = [singleton, layer2Singleton, handler]
      await placePublished(devnet.rpcUrl, ...all)
      const hashes = await Promise.all(all.map(({ address }) => codeHash(address)))
      expect(hashes).toEqual(SAFE_HASHES[version as keyof typeof SAFE_HASHES])
    },
  )

  it('is that of the published signer of passkeys', async () => {
    await placePublished(devnet.rpcUrl, PASSKEY_SIGNER)
    expect(await codeHash(PASSKEY_SIGNER.address)).toBe('0xd5ebb9058508…ab15')
  })

  it('is that of the published contracts for delegations', async () => {
    await placePublished(devnet.rpcUrl, META_MASK_DELEGATOR, SIMPLE_7702_ACCOUNT)
    expect(await codeHash(SIMPLE_7702_ACCOUNT.address)).toBe('0xcc7b633aef4b…fcf3')
    expect(await codeHash(META_MASK_DELEGATOR.address)).toBe('0xafd18e00edfc…306b')
  })
})

describe('a wallet of the tests', () => {
  it.each(WALLET_KINDS)('$name approves Permit2 and validates what its account signs', async ({ create }) => {
    const wallet = await create(devnet.rpcUrl, { approved: true })
    expect(await devnet.permit2Allowance(wallet.address)).toBeGreaterThan(0n)
    const hash = hashTypedData(MESSAGE)
    const call = { address: wallet.address, abi: ABI, functionName: 'isValidSignature' } as const
    const signature = await wallet.account.signTypedData(MESSAGE)
    expect(await devnet.client.readContract({ ...call, args: [hash, signature] })).toBe(VALID)
    const other = hashTypedData({ ...MESSAGE, message: { amount: 2n } })
    const refused = await devnet.client.readContract({ ...call, args: [other, signature] }).catch(() => 'reverted')
    expect(refused).not.toBe(VALID)
  })

  it.each(['1.3.0', '1.4.1', '1.5.0'] as const)('a Safe %s may be the owner of a Safe', async (version) => {
    const inner = await createSafe(devnet.rpcUrl, { version: '1.4.1' })
    const outer = await createSafe(devnet.rpcUrl, { version, owners: [inner.asOwner(), ...freshKeyOwners(1)] })
    const signature = await outer.account.signTypedData(MESSAGE)
    const call = { address: outer.address, abi: ABI, functionName: 'isValidSignature' } as const
    expect(await devnet.client.readContract({ ...call, args: [hashTypedData(MESSAGE), signature] })).toBe(VALID)
  })

  it('a Safe no longer validates the signature of an owner whose place another has', async () => {
    const safe = await createSafe(devnet.rpcUrl)
    const signature = await safe.account.signTypedData(MESSAGE)
    await safe.replaceFirstOwner()
    const call = { address: safe.address, abi: ABI, functionName: 'isValidSignature' } as const
    const hash = hashTypedData(MESSAGE)
    const earlier = await devnet.client.readContract({ ...call, args: [hash, signature] }).catch(() => 'reverted')
    expect(earlier).not.toBe(VALID)
    const next = await safe.account.signTypedData(MESSAGE)
    expect(await devnet.client.readContract({ ...call, args: [hash, next] })).toBe(VALID)
  })
})
