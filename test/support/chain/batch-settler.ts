import { type Hex, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createSettler, type SettlerOptions } from '#shared/chain/settlement/settler.ts'
import { type AtomicAmount, atomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { PreparedCharge, Settler, SignedTransaction } from '#shared/payment/facilitator.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { PATIENCE_MS } from '../patience.ts'
import { createPayer, type Payer, type PayerOfAnyKind } from '../payer/payer.ts'
import { type AuthorizationChanges, signAuthorization } from '../payer/sign-authorization.ts'
import { startTestDevnet, type TestDevnet } from './devnet.ts'
import { type RpcProxy, startRpcProxy } from './rpc-proxy.ts'
import { deployTestContract, type TestSettlementContract } from './settlement-contract.ts'

export const BATCH_CHARGE = atomicAmount(5000n)
const MAXIMUM = 9000n

/** A settler behind a proxy of its node, and the contract that lists its key. Addresses are in lower case. */
export interface BatchSettler {
  readonly devnet: TestDevnet
  readonly proxy: RpcProxy
  readonly contract: TestSettlementContract
  /** The settlement key of the devnet. */
  readonly sender: Hex
  /** Another funded key, which the contract does not list. */
  readonly other: { readonly privateKey: Hex; readonly address: Hex }
  readonly settler: Settler
  /** Has USDC and an allowance. */
  readonly payer: Payer
  /** Creates a settler that has cached nothing; by default with the devnet's key. */
  readonly newSettler: (options?: SettlerOptions, keys?: readonly Hex[]) => Settler
  /** Signs the contract as the facilitator, by default as `payer` and without a permit. */
  readonly signed: (by?: PayerOfAnyKind, changes?: AuthorizationChanges) => Promise<Authorization>
  readonly prepared: (authorization: Authorization, chargeAmount?: AtomicAmount) => Promise<PreparedCharge>
  readonly chargesOf: (count: number, by?: PayerOfAnyKind) => Promise<readonly PreparedCharge[]>
  /** Signs for the sender's next account nonce. */
  readonly signBatch: (charges: readonly PreparedCharge[]) => Promise<SignedTransaction>
  /** Signs and sends a batch, and waits until it is mined. */
  readonly sendBatch: (charges: readonly PreparedCharge[]) => Promise<Hex>
  readonly stop: () => Promise<void>
}

export async function startBatchSettler(): Promise<BatchSettler> {
  const devnet = await startTestDevnet()
  const proxy = await startRpcProxy(devnet.rpcUrl)
  const { settlement } = devnet.accounts
  const sender = settlement.address.toLowerCase() as Hex
  const privateKey = generatePrivateKey()
  const other = { privateKey, address: privateKeyToAccount(privateKey).address.toLowerCase() as Hex }
  await callRpc(devnet.rpcUrl, 'anvil_setBalance', [other.address, toHex(10n ** 18n)])
  const contract = await deployTestContract(devnet, [sender])
  const payer = await createPayer(devnet.rpcUrl, { usdcAtomic: 100_000_000n, approved: true })
  const newSettler: BatchSettler['newSettler'] = (options, keys = [settlement.privateKey]) =>
    createSettler(createChainClient(proxy.url, PATIENCE_MS), 8453, keys, options)
  const settler = newSettler()
  const signed: BatchSettler['signed'] = (by = payer, changes = {}) =>
    signAuthorization(devnet, by, {
      gasSponsored: false,
      authorizedMaximum: MAXIMUM,
      facilitator: contract.address,
      ...changes,
    })
  const prepared: BatchSettler['prepared'] = async (authorization, chargeAmount = BATCH_CHARGE) => {
    const outcome = await settler.prepare(authorization, chargeAmount)
    if (outcome.outcome !== 'ready') throw new Error(`not ready: ${outcome.outcome}`)
    return { authorization, chargeAmount, terms: outcome.terms }
  }
  const signBatch: BatchSettler['signBatch'] = async (charges) => {
    const count = await devnet.client.getTransactionCount({ address: sender })
    return await settler.signBatch(charges, sender, BigInt(count))
  }
  return {
    devnet,
    proxy,
    contract,
    sender,
    other,
    settler,
    payer,
    newSettler,
    signed,
    prepared,
    signBatch,
    chargesOf: (count, by) => Promise.all(Array.from({ length: count }, async () => prepared(await signed(by)))),
    sendBatch: async (charges) => {
      const transaction = await signBatch(charges)
      const { outcome } = await settler.broadcast(transaction)
      if (outcome !== 'sent') throw new Error(`the batch was not sent: ${outcome}`)
      await devnet.client.waitForTransactionReceipt({ hash: transaction.hash })
      return transaction.hash
    },
    stop: async () => {
      await proxy.stop()
      await devnet.stop()
    },
  }
}
