import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { EIP7702StatelessDeleGator } from '@metamask/delegation-abis/bytecode'
import { type Address, concat, encodeAbiParameters, type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader } from '../chain/devnet.ts'

const require = createRequire(import.meta.url)

/** A contract at the address where its maker deployed it on Base, and the code that its package ships. */
export interface PublishedContract {
  readonly address: Address
  /** Returns the creation code, followed by the arguments of the constructor. */
  readonly creationCode: () => Promise<Hex>
}

export type SafeVersion = '1.3.0' | '1.4.1' | '1.5.0'

interface SafeContracts {
  readonly singleton: PublishedContract
  readonly layer2Singleton: PublishedContract
  readonly handler: PublishedContract
  readonly factory: PublishedContract
}

/** Addresses: @safe-global/safe-deployments 1.37.63, "canonical"; of 1.3.0, Base has a second set. */
export const SAFE_CONTRACTS: Readonly<Record<SafeVersion, SafeContracts>> = {
  '1.3.0': {
    singleton: ofSafe('@gnosis.pm/safe-contracts', 'GnosisSafe', '0xd9Db270c1B5E3Bd161E8c8503c55cEABeE709552'),
    layer2Singleton: ofSafe('@gnosis.pm/safe-contracts', 'GnosisSafeL2', '0x3E5c63644E683549055b9Be8653de26E0B4CD36E'),
    handler: ofSafe(
      '@gnosis.pm/safe-contracts',
      'handler/CompatibilityFallbackHandler',
      '0xf48f2B2d2a534e402487b3ee7C18c33Aec0Fe5e4',
    ),
    factory: ofSafe(
      '@gnosis.pm/safe-contracts',
      'proxies/GnosisSafeProxyFactory',
      '0xa6B71E26C5e0845f74c812102Ca7114b6a896AB2',
    ),
  },
  '1.4.1': {
    singleton: ofSafe('@safe-global/safe-contracts', 'Safe', '0x41675C099F32341bf84BFc5382aF534df5C7461a'),
    layer2Singleton: ofSafe('@safe-global/safe-contracts', 'SafeL2', '0x29fcB43b46531BcA003ddC8FCB67FFE91900C762'),
    handler: ofSafe(
      '@safe-global/safe-contracts',
      'handler/CompatibilityFallbackHandler',
      '0xfd0732Dc9E303f09fCEf3a7388Ad10A83459Ec99',
    ),
    factory: ofSafe(
      '@safe-global/safe-contracts',
      'proxies/SafeProxyFactory',
      '0x4e1DCf7AD4e460CfD30791CCC4F9c8a4f820ec67',
    ),
  },
  '1.5.0': {
    singleton: ofSafe('@safe-global/safe-smart-account', 'Safe', '0xFf51A5898e281Db6DfC7855790607438dF2ca44b'),
    layer2Singleton: ofSafe('@safe-global/safe-smart-account', 'SafeL2', '0xEdd160fEBBD92E350D4D398fb636302fccd67C7e'),
    handler: ofSafe(
      '@safe-global/safe-smart-account',
      'handler/CompatibilityFallbackHandler',
      '0x3EfCBb83A4A7AfcB4F68D501E2c2203a38be77f4',
    ),
    factory: ofSafe(
      '@safe-global/safe-smart-account',
      'proxies/SafeProxyFactory',
      '0x14F2982D601c9458F93bd70B218933A6f8165e7b',
    ),
  },
}

/** Checks the passkey of each Safe that it owns. Address: @safe-global/safe-passkey 0.2.0, by its CREATE2 deployer. */
export const PASSKEY_SIGNER: PublishedContract = {
  address: '0xfD90FAd33ee8b58f32c00aceEad1358e4AFC23f9',
  creationCode: () =>
    bytecodeOf(
      '@safe-global/safe-passkey/build/artifacts/contracts/4337/SafeWebAuthnSharedSigner.sol/SafeWebAuthnSharedSigner.json',
    ),
}

/** eth-infinitism's account for delegations (EIP-7702), of EntryPoint 0.8. */
export const SIMPLE_7702_ACCOUNT: PublishedContract = {
  address: '0xe6Cae83BdE06E4c305530e199D7217f42808555B',
  creationCode: () => bytecodeOf('@account-abstraction/contracts/artifacts/Simple7702Account.json'),
}

/** Addresses: @metamask/delegation-deployments 1.4.0, framework 1.3.0. */
export const META_MASK_DELEGATOR: PublishedContract = {
  address: '0x63c0c19a282a1B52b07dD5a65b58948A07DAE32B',
  creationCode: async () => {
    const delegationManager = '0xdb9B1e94B5b69Df7e401DDbedE43491141047dB3'
    const entryPoint = '0x0000000071727De22E5E9d8BAf0edAc6f37da032'
    const types = [{ type: 'address' }, { type: 'address' }] as const
    return concat([EIP7702StatelessDeleGator as Hex, encodeAbiParameters(types, [delegationManager, entryPoint])])
  },
}

function ofSafe(packageName: string, contract: string, address: Address): PublishedContract {
  const name = contract.split('/').at(-1)
  const artifact = `${packageName}/build/artifacts/contracts/${contract}.sol/${name}.json`
  return { address, creationCode: () => bytecodeOf(artifact) }
}

/** Returns the creation code of an artifact of a package, by default one of the project's own. */
export async function bytecodeOf(artifact: string, resolve: (id: string) => string = require.resolve): Promise<Hex> {
  const { bytecode } = JSON.parse(await readFile(resolve(artifact), 'utf8')) as { readonly bytecode: Hex }
  return bytecode
}

/** Of each chain, what was placed or is being placed. */
const placed = new Map<string, Map<Address, Promise<void>>>()

/** Places published contracts at their addresses, unless that was done before. */
export async function placePublished(rpcUrl: string, ...contracts: readonly PublishedContract[]): Promise<void> {
  const ofChain = placed.get(rpcUrl) ?? new Map<Address, Promise<void>>()
  placed.set(rpcUrl, ofChain)
  for (const contract of contracts) {
    const placing = ofChain.get(contract.address) ?? place(rpcUrl, contract)
    ofChain.set(contract.address, placing)
    await placing
  }
}

/**
 * Runs the constructor at the contract's own address, so that values which it computes from that address or the chain
 * are right, in its code as in its storage.
 */
async function place(rpcUrl: string, { address, creationCode }: PublishedContract): Promise<void> {
  const from = privateKeyToAccount(generatePrivateKey()).address
  await callRpc(rpcUrl, 'anvil_setCode', [address, await creationCode()])
  await callRpc(rpcUrl, 'anvil_setBalance', [from, toHex(10n ** 18n)])
  await callRpc(rpcUrl, 'anvil_impersonateAccount', [from])
  const construction = { from, to: address, gas: toHex(10_000_000) }
  const code = await callRpc<Hex>(rpcUrl, 'eth_call', [construction, 'latest'])
  const hash = await callRpc<Hex>(rpcUrl, 'eth_sendTransaction', [construction])
  const { status } = await createChainReader(rpcUrl).client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error(`the constructor of ${address} was reverted`)
  await callRpc(rpcUrl, 'anvil_setCode', [address, code])
}
