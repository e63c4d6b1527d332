import { randomBytes } from 'node:crypto'
import { uptoPermit2WitnessTypes } from '@x402/evm'
import { type Address, encodeFunctionData, type Hex, maxUint256, parseAbi, toHex } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { PERMIT2_ADDRESS, UPTO_PROXY_ADDRESS, USDC_ADDRESS } from '#shared/adapters/chain/contracts.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { mintUsdc } from '../../../infra/sandbox/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/json-rpc.ts'
import type { TestDevnet } from '../chain/devnet.ts'

const CHAIN_ID = 8453
const ABI = parseAbi([
  'function approve(address spender, uint256 value) returns (bool)',
  'function transfer(address to, uint256 value) returns (bool)',
  'function invalidateUnorderedNonces(uint256 wordPos, uint256 mask)',
])
const PERMIT_TYPES = {
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/** A payer of one test, who can also do with his money what no honest client does. */
export interface ChainPayer {
  readonly address: Hex
  readonly account: PrivateKeyAccount
  readonly privateKey: Hex
  /** Lets Permit2 spend his USDC. */
  approve(value?: bigint): Promise<void>
  /** Sends USDC away. */
  spend(valueAtomic: bigint): Promise<void>
  /** Sends everything that is left away. */
  spendAll(): Promise<void>
  /** Burns a Permit2 nonce. */
  invalidateNonce(nonce: bigint): Promise<void>
  sign(changes?: AuthorizationChanges): Promise<Authorization>
}

export interface AuthorizationChanges {
  readonly authorizedMaximum?: bigint
  readonly nonce?: bigint
  readonly deadline?: bigint
  readonly validAfter?: bigint
  readonly facilitator?: Address
  readonly payTo?: Address
  /** Signs an EIP-2612 permit with it; the default. */
  readonly gasSponsored?: boolean
  readonly permitNonce?: bigint
  /** That of the payment when left out. */
  readonly permitDeadline?: bigint
  /** Another key signs in the payer's name. */
  readonly signer?: PrivateKeyAccount
}

/** Minting sends from one account, whose nonces anvil mixes up when several are sent at once. */
let minting: Promise<unknown> = Promise.resolve()

function mintInTurn(rpcUrl: string, to: Hex, usdcAtomic: bigint): Promise<void> {
  const minted = minting.then(() => mintUsdc(rpcUrl, to, usdcAtomic))
  minting = minted.catch(() => undefined)
  return minted
}

/** A fresh key with `usdcAtomic` and neither gas nor allowance. */
export async function createChainPayer(devnet: TestDevnet, usdcAtomic = 1_000_000n): Promise<ChainPayer> {
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  const address = account.address.toLowerCase() as Hex
  if (usdcAtomic > 0n) await mintInTurn(devnet.rpcUrl, address, usdcAtomic)
  const send = async (to: Hex, data: Hex) => {
    await callRpc(devnet.rpcUrl, 'anvil_setBalance', [address, toHex(10n ** 18n)])
    await callRpc(devnet.rpcUrl, 'anvil_impersonateAccount', [address])
    const hash = await callRpc<Hex>(devnet.rpcUrl, 'eth_sendTransaction', [{ from: address, to, data }])
    const { status } = await devnet.client.waitForTransactionReceipt({ hash })
    if (status !== 'success') throw new Error('the payer’s own transaction was reverted')
  }
  const spend = (value: bigint) =>
    send(
      USDC_ADDRESS,
      encodeFunctionData({
        abi: ABI,
        functionName: 'transfer',
        args: ['0x000000000000000000000000000000000000dEaD', value],
      }),
    )
  return {
    address,
    account,
    privateKey,
    approve: (value = maxUint256) =>
      send(USDC_ADDRESS, encodeFunctionData({ abi: ABI, functionName: 'approve', args: [PERMIT2_ADDRESS, value] })),
    spend,
    spendAll: async () => {
      // A settlement between the look and the transfer makes it fail; the rest goes with the next one.
      for (let tries = 0; tries < 3; tries++) {
        const left = await devnet.usdcBalance(address)
        if (left === 0n) return
        await spend(left).catch(() => undefined)
      }
      throw new Error('the payer’s money came back three times')
    },
    invalidateNonce: (nonce) =>
      send(
        PERMIT2_ADDRESS,
        encodeFunctionData({
          abi: ABI,
          functionName: 'invalidateUnorderedNonces',
          args: [nonce >> 8n, 1n << (nonce & 255n)],
        }),
      ),
    sign: (changes = {}) => signAuthorization(devnet, account, changes),
  }
}

async function signAuthorization(
  devnet: TestDevnet,
  account: PrivateKeyAccount,
  changes: AuthorizationChanges,
): Promise<Authorization> {
  const { gasSponsored = true, signer = account, validAfter = 0n } = changes
  const maximum = changes.authorizedMaximum ?? 5034n
  const nonce = changes.nonce ?? BigInt(`0x${randomBytes(32).toString('hex')}`)
  const deadline = changes.deadline ?? BigInt(Math.floor(Date.now() / 1000) + 600)
  const payTo = changes.payTo ?? devnet.accounts.recipient.address
  const facilitator = changes.facilitator ?? devnet.accounts.settlement.address
  const signature = await signer.signTypedData({
    domain: { name: 'Permit2', chainId: CHAIN_ID, verifyingContract: PERMIT2_ADDRESS },
    types: uptoPermit2WitnessTypes,
    primaryType: 'PermitWitnessTransferFrom',
    message: {
      permitted: { token: USDC_ADDRESS, amount: maximum },
      spender: UPTO_PROXY_ADDRESS,
      nonce,
      deadline,
      witness: { to: payTo, facilitator, validAfter },
    },
  })
  return {
    network: `eip155:${CHAIN_ID}`,
    asset: USDC_ADDRESS,
    payer: account.address.toLowerCase() as Hex,
    payTo: payTo.toLowerCase() as Hex,
    facilitator: facilitator.toLowerCase() as Hex,
    spender: UPTO_PROXY_ADDRESS,
    authorizedMaximum: atomicAmount(maximum),
    nonce,
    deadline,
    validAfter,
    signature,
    gasSponsoring: gasSponsored
      ? await signPermit(signer, account, maximum, changes.permitDeadline ?? deadline, changes.permitNonce ?? 0n)
      : null,
  }
}

async function signPermit(
  signer: PrivateKeyAccount,
  owner: PrivateKeyAccount,
  value: bigint,
  deadline: bigint,
  nonce: bigint,
): Promise<NonNullable<Authorization['gasSponsoring']>> {
  const signature = await signer.signTypedData({
    domain: { name: 'USD Coin', version: '2', chainId: CHAIN_ID, verifyingContract: USDC_ADDRESS },
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    message: { owner: owner.address, spender: PERMIT2_ADDRESS, value, nonce, deadline },
  })
  return {
    from: owner.address.toLowerCase() as Hex,
    asset: USDC_ADDRESS,
    spender: PERMIT2_ADDRESS,
    amount: value,
    nonce,
    deadline,
    signature,
    version: '1',
  }
}
