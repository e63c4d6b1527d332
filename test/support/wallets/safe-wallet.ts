import {
  type Address,
  encodeFunctionData,
  hashMessage,
  hashTypedData,
  type Hex,
  isAddressEqual,
  parseAbi,
  type TypedDataDefinition,
  zeroAddress,
} from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createChainReader } from '../chain/devnet.ts'
import {
  type ContractCall,
  mintInTurn,
  type PayerAccount,
  type PayerOfAnyKind,
  type PayerOptions,
  sendAs,
  spendingOf,
} from '../payer/payer.ts'
import { placePublished, SAFE_CONTRACTS, type SafeVersion } from './published-code.ts'
import { keyOwner, type SafeDigest, type SafeOwner, safeHash, signaturesOf } from './safe-owners.ts'

const ABI = parseAbi([
  'function createProxyWithNonce(address singleton, bytes initializer, uint256 saltNonce) returns (address proxy)',
  'function setup(address[] owners, uint256 threshold, address to, bytes data, address fallbackHandler, address paymentToken, uint256 payment, address paymentReceiver)',
  'function execTransaction(address to, uint256 value, bytes data, uint8 operation, uint256 safeTxGas, uint256 baseGas, uint256 gasPrice, address gasToken, address refundReceiver, bytes signatures) payable returns (bool success)',
  'function nonce() view returns (uint256)',
  'function getOwners() view returns (address[])',
  'function swapOwner(address previousOwner, address oldOwner, address newOwner)',
])

const MESSAGE_TYPES = { SafeMessage: [{ name: 'message', type: 'bytes' }] } as const
const TRANSACTION_TYPES = {
  SafeTx: [
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'data', type: 'bytes' },
    { name: 'operation', type: 'uint8' },
    { name: 'safeTxGas', type: 'uint256' },
    { name: 'baseGas', type: 'uint256' },
    { name: 'gasPrice', type: 'uint256' },
    { name: 'gasToken', type: 'address' },
    { name: 'refundReceiver', type: 'address' },
    { name: 'nonce', type: 'uint256' },
  ],
} as const

/** Begins the linked list of a Safe's owners. */
const FIRST_OWNER = '0x0000000000000000000000000000000000000001'

const NO_CALL: ContractCall = { to: zeroAddress, data: '0x' }

/** A Safe whose owners the test has. */
export interface SafeWallet extends PayerOfAnyKind {
  /** Sends a transaction of the wallet's own, signed by its owners. */
  send(call: ContractCall): Promise<void>
  /** Gives the place of the first owner to another one, so that earlier signatures of that owner no longer count. */
  replaceFirstOwner(): Promise<void>
  /** Makes it the owner of another Safe. */
  asOwner(): SafeOwner
}

export interface SafeOptions extends PayerOptions {
  readonly version?: SafeVersion
  /** Default: a fresh key. */
  readonly owners?: readonly SafeOwner[]
  /** Default: all owners. */
  readonly threshold?: number
  /** Default: the compatibility handler of the version. */
  readonly handler?: Address
  /** Whether it has the singleton that logs its transactions, which wallets on rollups have; default false. */
  readonly isForLayer2?: boolean
  /** Runs as the wallet itself (DELEGATECALL) while it is set up; default none. */
  readonly setupCall?: ContractCall
}

export function freshKeyOwners(count: number): readonly SafeOwner[] {
  return Array.from({ length: count }, () => keyOwner(privateKeyToAccount(generatePrivateKey())))
}

/** Creates a Safe through the factory of its version, with USDC and, if asked for, an allowance by its own transaction. */
export async function createSafe(rpcUrl: string, options: SafeOptions = {}): Promise<SafeWallet> {
  const { version = '1.4.1', owners = freshKeyOwners(1), threshold = owners.length, isForLayer2 = false } = options
  const { setupCall = NO_CALL } = options
  const contracts = SAFE_CONTRACTS[version]
  const { handler, factory } = contracts
  const singleton = isForLayer2 ? contracts.layer2Singleton : contracts.singleton
  await placePublished(rpcUrl, singleton, handler, factory)
  const initializer = encodeFunctionData({
    abi: ABI,
    functionName: 'setup',
    args: [
      owners.map(({ address }) => address),
      BigInt(threshold),
      setupCall.to,
      setupCall.data,
      options.handler ?? handler.address,
      zeroAddress,
      0n,
      zeroAddress,
    ],
  })
  const address = await deploy(rpcUrl, factory.address, singleton.address, initializer)
  const { usdcAtomic = 1_000_000n, approved = false } = options
  if (usdcAtomic > 0n) await mintInTurn(rpcUrl, address, usdcAtomic)
  const safe = safeAt({ rpcUrl, address, version, owners, threshold })
  if (approved) await safe.approve()
  return safe
}

async function deploy(rpcUrl: string, factory: Address, singleton: Address, initializer: Hex): Promise<Hex> {
  const sender = privateKeyToAccount(generatePrivateKey()).address
  const creation = { abi: ABI, functionName: 'createProxyWithNonce', args: [singleton, initializer, 0n] } as const
  const { client } = createChainReader(rpcUrl)
  const { result } = await client.simulateContract({ address: factory, account: sender, ...creation })
  await sendAs({ address: sender, rpcUrl }, { to: factory, data: encodeFunctionData(creation) })
  return result.toLowerCase() as Hex
}

interface DeployedSafe extends Required<Pick<SafeOptions, 'version' | 'owners' | 'threshold'>> {
  readonly rpcUrl: string
  readonly address: Hex
}

function safeAt({ rpcUrl, address, version, owners, threshold }: DeployedSafe): SafeWallet {
  const known = [...owners]
  const signMessage = async (message: Hex) =>
    signaturesOf(await currentSigners(), messageDigest(address, version, message))
  const readOwners = () =>
    createChainReader(rpcUrl)
      .client.readContract({ address, abi: ABI, functionName: 'getOwners' })
      // Another singleton may know no owners.
      .catch(() => known.map((owner) => owner.address))
  /** A reorganization may take back that an owner was replaced. */
  const currentSigners = async () => {
    const current = await readOwners()
    return known.filter((owner) => current.some((each) => isAddressEqual(each, owner.address))).slice(0, threshold)
  }
  const send = async (call: ContractCall) => {
    const { data, digest } = await transactionOf(rpcUrl, address, version, call)
    const signatures = await signaturesOf(await currentSigners(), digest)
    const sender = privateKeyToAccount(generatePrivateKey()).address
    await sendAs({ address: sender, rpcUrl }, { to: address, data: data(signatures) })
  }
  return {
    address,
    account: accountOf(address, signMessage),
    rpcUrl,
    send,
    ...spendingOf(rpcUrl, address, send),
    replaceFirstOwner: async () => {
      const [first] = await readOwners()
      const [next] = freshKeyOwners(1)
      if (!first || !next) throw new Error('a Safe has an owner')
      const args = [FIRST_OWNER, first, next.address] as const
      known.unshift(next)
      await send({ to: address, data: encodeFunctionData({ abi: ABI, functionName: 'swapOwner', args }) })
    },
    asOwner: () => ({ address, isContract: true, sign: ({ forContracts }) => signMessage(forContracts) }),
  }
}

/** Returns what signs as a wallet for which the hash of a message is a message of its own. */
function accountOf(address: Hex, signHash: (hash: Hex) => Promise<Hex>): PayerAccount {
  return {
    address,
    signMessage: ({ message }) => signHash(hashMessage(message)),
    signTypedData: (typed) => signHash(hashTypedData(typed as TypedDataDefinition)),
  }
}

function messageDigest(safe: Hex, version: SafeVersion, message: Hex): SafeDigest {
  const { hash, preimage } = safeHash(safe, {
    types: MESSAGE_TYPES,
    primaryType: 'SafeMessage',
    message: { message },
  })
  return { hash, forContracts: { '1.3.0': message, '1.4.1': preimage, '1.5.0': hash }[version] }
}

/** Returns the next transaction of a Safe: what its owners sign, and the call for their signatures. */
async function transactionOf(rpcUrl: string, safe: Hex, version: SafeVersion, { to, data }: ContractCall) {
  const { client } = createChainReader(rpcUrl)
  const nonce = await client.readContract({ address: safe, abi: ABI, functionName: 'nonce' })
  const [value, operation, gas] = [0n, 0, 0n]
  const unused = { safeTxGas: gas, baseGas: gas, gasPrice: gas, gasToken: zeroAddress, refundReceiver: zeroAddress }
  const { hash, preimage } = safeHash(safe, {
    types: TRANSACTION_TYPES,
    primaryType: 'SafeTx',
    message: { to, value, data, operation, ...unused, nonce },
  })
  const digest: SafeDigest = { hash, forContracts: version === '1.5.0' ? hash : preimage }
  const call = (signatures: Hex) =>
    encodeFunctionData({
      abi: ABI,
      functionName: 'execTransaction',
      args: [to, value, data, operation, gas, gas, gas, zeroAddress, zeroAddress, signatures],
    })
  return { digest, data: call }
}
