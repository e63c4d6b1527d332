import { encodeFunctionData, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, vi } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { settlementContractAbi } from '#shared/chain/network/contracts.ts'
import { createBlockReader } from '#shared/chain/reading/block-reader.ts'
import { createFeeEstimator } from '#shared/chain/settlement/fee-estimator.ts'
import { createSettlementAccounts } from '#shared/chain/settlement/settlement-accounts.ts'
import type { Settler } from '#shared/payment/facilitator.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { SettlementWatchDependencies } from '../../../workers/settlement/dependencies.ts'
import {
  type ReplacementDependencies,
  replaceStuckTransactions,
} from '../../../workers/settlement/own-keys/replace-stuck-transactions.ts'
import { watchFinality } from '../../../workers/settlement/own-keys/watch-finality.ts'
import { PATIENCE_MS } from '../patience.ts'
import type { Payer } from '../payer/payer.ts'
import type { AuthorizationChanges } from '../payer/sign-authorization.ts'
import type { AcceptedJob, TestWorker, TestWorkerDependencies } from '../processes/test-worker.ts'
import { until } from '../until.ts'

type Hex = `0x${string}`

/** A separate settlement key with the sweeps that maintain its nonce queue. */
export interface SettlementChain {
  readonly privateKey: Hex
  /** The address of the key. */
  readonly facilitator: Hex
  /** The settlement contract that lists the key; `null` when the key settles directly. */
  readonly contract: Hex | null
  /** What payers sign as facilitator: the contract or the key. */
  readonly signedFor: Hex
  readonly chain: Pick<
    TestWorkerDependencies,
    'verifier' | 'settler' | 'accounts' | 'blockWatch' | 'chainClock' | 'gas'
  >
  /** What the sweeps that watch its settlements depend on. */
  watching(): SettlementWatchDependencies
  /** Replaces stuck transactions once; returns how many actions it took. */
  keep(changes?: Partial<ReplacementDependencies>): Promise<number>
  /** Runs the finality watcher once. */
  watch(changes?: Partial<SettlementWatchDependencies>): Promise<number>
  accept(signed?: AuthorizationChanges, payer?: Payer): Promise<AcceptedJob>
  /**
   * Sends an unrelated transaction with the settlement key, as another holder of it would; mined unless mining is off.
   */
  useNonceElsewhere(nonce: number): Promise<void>
  /** Stores a replacement transaction with a higher fee without sending it. */
  signReplacement(hash: Hex): Promise<void>
  /** Waits until a transaction is mined, which is a moment after anvil accepts it. */
  untilMined(hash: Hex): Promise<void>
  /** Puts the key on the contract's list, or takes it off, as the owner; mined unless mining is off. */
  listKey(isListed: boolean): Promise<void>
  /** Returns the number of account nonces that the chain has used. */
  count(): Promise<number>
  /** Returns the hashes of all transactions signed for a job, oldest first. */
  hashes(jobId: string): Promise<Hex[]>
  rpc<T = unknown>(method: string, ...parameters: unknown[]): Promise<T>
}

const NETWORK = 'eip155:8453'
/** Far longer than any test takes, so that only {@link age} makes a transaction overdue. */
const FEE_BUMP_AFTER_MS = 3_600_000

export interface SettlementChainOptions {
  /** Deploys a settlement contract that lists the key, which payers then sign; default false. */
  readonly throughContract?: boolean
}

/** Both ways to settle, for `describe.each`. */
export const BOTH_WAYS = [
  { way: 'by the key', throughContract: false },
  { way: 'through the contract', throughContract: true },
] as const

/** Returns a broadcast that sends each transaction once, although several senders repeat it. */
export function onceForEach(broadcast: Settler['broadcast']): Settler['broadcast'] {
  const answers = new Map<Hex, ReturnType<Settler['broadcast']>>()
  return (transaction) => {
    const answer = answers.get(transaction.hash) ?? broadcast(transaction)
    answers.set(transaction.hash, answer)
    return answer
  }
}

/** Creates a settlement key with 1 ETH that reaches the chain through the worker's proxy. */
export async function createSettlementChain(
  worker: TestWorker,
  { throughContract = false }: SettlementChainOptions = {},
): Promise<SettlementChain> {
  const { rpcUrl, client } = worker.devnet
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  const facilitator = account.address.toLowerCase() as Hex
  const rpc = <T = unknown>(method: string, ...parameters: unknown[]) => callRpc<T>(rpcUrl, method, parameters)
  await rpc('anvil_setBalance', facilitator, toHex(10n ** 18n))
  const roles = { owner: worker.devnet.accounts.recipient.address, keys: [facilitator] }
  const contract = throughContract ? ((await deploySettlementContract(rpcUrl, roles)).toLowerCase() as Hex) : null
  const count = () => client.getTransactionCount({ address: facilitator })
  const through = createChainClient(worker.proxy.url, PATIENCE_MS)
  const chain = worker.through(worker.proxy, privateKey)
  const settlementStore = worker.ledger.settlement
  const { logger } = worker.dependencies
  const watching = (): SettlementWatchDependencies => ({
    settlementStore,
    settler: chain.settler,
    // Fresh estimates in each round: tests change the base fee in between.
    accounts: createSettlementAccounts(through, 8453, [privateKey], { estimateFees: createFeeEstimator(through) }),
    blocks: createBlockReader(through),
    gas: chain.gas,
    network: NETWORK,
    feeBumpAfterMs: FEE_BUMP_AFTER_MS,
    nativeTokenUsd: 3000,
    logger,
  })
  return {
    privateKey,
    facilitator,
    contract,
    signedFor: contract ?? facilitator,
    chain,
    watching,
    keep: (changes = {}) =>
      replaceStuckTransactions({
        ...watching(),
        onReplacement: () => undefined,
        onUsedElsewhere: () => undefined,
        ...changes,
      }).run(),
    watch: (changes = {}) => watchFinality({ ...watching(), ...changes }).run(),
    accept: (signed, payer) =>
      worker.accept({ ...(payer && { payer }), signed: { facilitator: contract ?? facilitator, ...signed } }),
    useNonceElsewhere: async (nonce) => {
      const raw = await account.signTransaction({
        type: 'eip1559',
        chainId: 8453,
        nonce,
        gas: 21_000n,
        to: facilitator,
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 10n ** 10n,
      })
      await rpc('eth_sendRawTransaction', raw)
      if (await rpc<boolean>('anvil_getAutomine')) await until(async () => (await count()) > nonce)
    },
    signReplacement: async (hash) => {
      const [row] = await worker.ledger.sql<{ raw: Hex }>(
        'SELECT raw_transaction AS raw FROM settlement_transactions WHERE hash = $1',
        [hash],
      )
      if (!row) throw new Error(`no stored transaction ${hash}`)
      const replacement = await createSettlementAccounts(through, 8453, [privateKey]).replace(facilitator, row.raw)
      if (!replacement) throw new Error('the fee limit allows no replacement')
      await settlementStore.addReplacement(hash, replacement)
    },
    listKey: async (isListed) => {
      const data = encodeFunctionData({
        abi: settlementContractAbi,
        functionName: 'setKey',
        args: [facilitator, isListed],
      })
      await rpc('anvil_setBalance', roles.owner, toHex(10n ** 18n))
      await rpc('anvil_impersonateAccount', roles.owner)
      await client.waitForTransactionReceipt({
        hash: await rpc<Hex>('eth_sendTransaction', { from: roles.owner, to: contract, data }),
      })
    },
    untilMined: async (hash) => {
      await client.waitForTransactionReceipt({ hash })
    },
    count,
    hashes: async (jobId) => {
      const rows = await worker.ledger.sql<{ hash: Hex }>(
        `SELECT hash FROM settlement_transactions AS signed JOIN settlements
           ON settlements.id = settlement_id OR signed.batch_id = settlements.batch_id
             OR signed.batch_id = ANY(earlier_batches)
         WHERE job_id = $1 ORDER BY signed.signed_at`,
        [jobId],
      )
      return rows.map(({ hash }) => hash)
    },
    rpc,
  }
}

/**
 * Stops the clock by which workers of this process watch the chain and cache their reads, for all tests of a file.
 * Returns a function that advances it.
 */
export function stopChainWatch(): (milliseconds: number) => void {
  let now = performance.now()
  let clock: { mockRestore(): void } | undefined
  beforeAll(() => {
    clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  })
  afterAll(() => clock?.mockRestore())
  return (milliseconds) => {
    now += milliseconds
  }
}

/** Age at which the head of a nonce queue is due for a higher fee. */
export const LATE_SECONDS = FEE_BUMP_AFTER_MS / 1000 + 1

/** Ages the nonce queue of a key in the ledger, instead of waiting. */
export async function age(worker: TestWorker, facilitator: Hex, seconds: number): Promise<void> {
  const parameters = [facilitator, seconds]
  await worker.ledger.sql(
    'UPDATE settlement_accounts SET head_since = head_since - make_interval(secs => $2) WHERE facilitator = $1',
    parameters,
  )
  await worker.ledger.sql(
    'UPDATE settlement_transactions SET signed_at = signed_at - make_interval(secs => $2) WHERE facilitator = $1',
    parameters,
  )
}
