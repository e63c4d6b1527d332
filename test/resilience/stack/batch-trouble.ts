import { setTimeout as delay } from 'node:timers/promises'
import { encodeFunctionData, type Hex, parseAbi, parseTransaction, toHex } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import { ELSEWHERE, payerCalls } from '../../support/payer/payer.ts'
import { pick } from '../calls/random.ts'
import type { MinedBatch } from '../checker/ledgers.ts'
import { readBatches } from '../checker/read-batches.ts'
import { mine, reorganize, setMining } from '../nemesis/chain-faults.ts'
import {
  type CalledPayment,
  listKeys,
  type PendingBatch,
  paymentsOfCall,
  readPendingBatches,
  sendUrgently,
  untilBatchPends,
} from './pending-batches.ts'
import type { CampaignStack } from './stack.ts'

const TRANSFER = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
/** Longest wait for a batch to be sent while no blocks are mined. */
const LONGEST_WAIT_MS = 8000
const POLL_MS = 20
/** Too deep for a later reorganization. */
const DEPTH = 4
/** Blocks that come faster show a chain without a block time, on which nothing gathers. */
const BETWEEN_BLOCKS_MS = 600

type Troubled = Pick<CampaignStack, 'info' | 'reorganizedAt' | 'node'>

/**
 * How many payments each batch had that met a trouble, as the chain or the ledger shows afterwards. Empty when no batch
 * came in time.
 */
export type BatchSizes = readonly number[]

/**
 * Mines nothing until a batch of at least `leastPayments` is sent, lets `act` see all that wait, and resumes mining.
 * Returns what `act` does.
 */
async function whileBatchPends(
  { info }: Troubled,
  leastPayments: number,
  act: (batches: readonly PendingBatch[], contract: `0x${string}`) => Promise<BatchSizes>,
): Promise<BatchSizes> {
  const { rpcUrl } = info
  const settlementContract = contractOf(info)
  await setMining(rpcUrl, false)
  let sizes: BatchSizes = []
  try {
    const batches = await untilBatchPends(rpcUrl, settlementContract, LONGEST_WAIT_MS, leastPayments)
    if (batches.length > 0) sizes = await act(batches, settlementContract)
  } finally {
    await setMining(rpcUrl, true, DEPTH)
  }
  return sizes
}

function contractOf({ settlementContract }: Troubled['info']): `0x${string}` {
  if (!settlementContract) throw new Error('the stack has no settlement contract')
  return settlementContract
}

/** Returns the sizes of the batches whose receipts are as described. */
async function sizesOf(
  { rpcUrl, payTo, settlementContract }: Troubled['info'],
  batches: readonly PendingBatch[],
  isMet: (receipt: MinedBatch | undefined) => boolean,
): Promise<BatchSizes> {
  const { client } = createChainReader(rpcUrl)
  const hashes = new Set(batches.map(({ hash }) => hash))
  const read = await readBatches(client, settlementContract ?? '', [payTo], hashes)
  return batches.filter(({ hash }) => isMet(read.get(hash)?.batch ?? undefined)).map(({ payments }) => payments.length)
}

/** Mines a batch and replaces its block by an empty one, when some of its jobs may be completed. */
export async function reorganizeBatch(
  stack: Troubled,
  seenForMs: number,
  depth: number,
  leastPayments = 1,
): Promise<BatchSizes> {
  const { info, reorganizedAt } = stack
  return await whileBatchPends(stack, leastPayments, async (batches) => {
    await mine(info.rpcUrl, 1)
    await delay(seenForMs)
    reorganizedAt.push(Date.now())
    await reorganize(info.rpcUrl, depth)
    return await sizesOf(info, batches, (mined) => mined === undefined)
  })
}

/**
 * Lets a batch wait until the service has replaced it by a higher fee, and `waitMs` longer, when it may be replaced again.
 * `restoresOriginal`: then the nodes have only the first transaction again.
 */
export async function replaceBatch(
  stack: Troubled,
  waitMs: number,
  restoresOriginal = false,
  leastPayments = 1,
): Promise<BatchSizes> {
  const { rpcUrl } = stack.info
  return await whileBatchPends(stack, leastPayments, async (batches, contract) => {
    const originals = await readRaw(rpcUrl, batches)
    await letGoFirst(rpcUrl, originals, leastPayments)
    const findReplaced = async () => {
      const pending = await readPendingBatches(rpcUrl, contract)
      return originals.flatMap(({ batch, raw }) => {
        const other = pending.find((one) => isForSameNonce(one, batch) && one.hash !== batch.hash)
        return other ? [{ other, raw }] : []
      })
    }
    const isLarge = ({ payments }: PendingBatch) => payments.length >= leastPayments
    for (
      const giveUpAt = Date.now() + LONGEST_WAIT_MS;
      Date.now() < giveUpAt && !(await findReplaced()).some(({ other }) => isLarge(other));
    )
      await delay(POLL_MS)
    await delay(waitMs)
    const replaced = await findReplaced()
    if (restoresOriginal)
      for (const { other, raw } of replaced) {
        await callRpc(rpcUrl, 'anvil_dropTransaction', [other.hash])
        // The service may have sent its replacement again in the meantime.
        await callRpc(rpcUrl, 'eth_sendRawTransaction', [raw]).catch(() => undefined)
      }
    return replaced.map(({ other }) => other.payments.length)
  })
}

interface RawBatch {
  readonly batch: PendingBatch
  readonly raw: Hex
}

async function readRaw(rpcUrl: string, batches: readonly PendingBatch[]): Promise<readonly RawBatch[]> {
  const read = batches.map(async (batch) => ({
    batch,
    raw: await callRpc<Hex>(rpcUrl, 'eth_getRawTransactionByHash', [batch.hash]),
  }))
  return (await Promise.all(read)).toSorted((one, other) => one.batch.accountNonce - other.batch.accountNonce)
}

/**
 * While no blocks are mined: waits for a batch of `leastPayments` and mines what its key has sent before it. When none
 * comes, blocks are mined again: nothing else would let the calls go on.
 */
export async function putBatchFirst({ info }: Troubled, leastPayments: number, longestMs: number): Promise<void> {
  const batches = await untilBatchPends(info.rpcUrl, contractOf(info), longestMs, leastPayments)
  if (batches.length > 0) await letGoFirst(info.rpcUrl, await readRaw(info.rpcUrl, batches), leastPayments)
  else await setMining(info.rpcUrl, true)
}

/** Mines the batches before the first one of `leastPayments`: only the next transaction of a key is ever replaced. */
async function letGoFirst(rpcUrl: string, originals: readonly RawBatch[], leastPayments: number): Promise<void> {
  const first = originals.findIndex(({ batch }) => batch.payments.length >= leastPayments)
  if (first === 0) return
  const held = originals.slice(first)
  for (const { batch } of held) await callRpc(rpcUrl, 'anvil_dropTransaction', [batch.hash])
  await mine(rpcUrl, 1)
  // The service may have sent it again in the meantime.
  for (const { raw } of held) await callRpc(rpcUrl, 'eth_sendRawTransaction', [raw]).catch(() => undefined)
}

function isForSameNonce(one: PendingBatch, other: PendingBatch): boolean {
  return one.sender === other.sender && one.accountNonce === other.accountNonce
}

const PAYER_DEEDS = ['burns_nonce', 'revokes', 'spends', 'takes_code'] as const
type PayerDeed = (typeof PAYER_DEEDS)[number]

/** Lets some payers of a batch prevent their payments in its own block, before it; most of what they did is undone. */
export async function failPartOfBatch(stack: Troubled, random: () => number, leastPayments = 1): Promise<BatchSizes> {
  const { rpcUrl } = stack.info
  const undo: (() => Promise<unknown>)[] = []
  return await whileBatchPends(stack, leastPayments, async (batches) => {
    // One of each at least.
    for (const { payments } of batches)
      for (const [index, payment] of payments.entries())
        if (index === 0 || random() < 0.4) await prevent(rpcUrl, payment, pick(random, PAYER_DEEDS), undo)
    await mine(rpcUrl, 1)
    const sizes = await sizesOf(
      stack.info,
      batches,
      (mined) => mined?.payments.some(({ isSettled }) => !isSettled) === true,
    )
    for (const act of undo) await act()
    await delay(BETWEEN_BLOCKS_MS)
    return sizes
  })
}

async function prevent(
  rpcUrl: string,
  { payer, nonce }: CalledPayment,
  deed: PayerDeed,
  undo: (() => Promise<unknown>)[],
): Promise<void> {
  switch (deed) {
    case 'burns_nonce':
      await sendUrgently(rpcUrl, payer, payerCalls.invalidateNonce(nonce))
      return
    case 'revokes':
      await sendUrgently(rpcUrl, payer, payerCalls.approve(0n))
      undo.push(() => sendUrgently(rpcUrl, payer, payerCalls.approve(2n ** 256n - 1n)))
      return
    case 'spends': {
      const balance = await createChainReader(rpcUrl).usdcBalance(payer)
      await sendUrgently(rpcUrl, payer, payerCalls.spend(balance))
      const data = encodeFunctionData({ abi: TRANSFER, functionName: 'transfer', args: [payer, balance] })
      undo.push(() => sendUrgently(rpcUrl, ELSEWHERE, { to: DEVNET_ADDRESSES.usdc, data }))
      return
    }
    case 'takes_code':
      // An account with code signs by EIP-1271, which this code does not have.
      await callRpc(rpcUrl, 'anvil_setCode', [payer, '0x60006000fd'])
      undo.push(() => callRpc(rpcUrl, 'anvil_setCode', [payer, '0x']))
  }
}

/** Takes the keys off the contract's list in the block of a batch, which reverts as a whole, and lists them again. */
export async function revertBatch(stack: Troubled, unlistedMs: number, leastPayments = 1): Promise<BatchSizes> {
  const { rpcUrl, payTo, settlementAddresses } = stack.info
  return await whileBatchPends(stack, leastPayments, async (batches, contract) => {
    const listed = { rpcUrl, contract, owner: payTo, keys: settlementAddresses }
    await listKeys(listed, false)
    await mine(rpcUrl, 1)
    await delay(BETWEEN_BLOCKS_MS + unlistedMs)
    await listKeys(listed, true)
    return await sizesOf(stack.info, batches, (mined) => mined?.isReverted === true)
  })
}

/**
 * Lets the nodes refuse transactions of more gas than one payment needs, as those of a batch with several, until they have
 * refused one, and `durationMs` longer.
 */
export async function refuseLarge(
  { node }: Troubled,
  durationMs: number,
  longestMs = LONGEST_WAIT_MS,
): Promise<BatchSizes> {
  if (!node) throw new Error('the stack has no proxy in front of the node')
  const refused = new Map<unknown, number>()
  node.chooseFault(({ method, params }) => {
    if (method !== 'eth_sendRawTransaction') return null
    const { gas = 0n, data = '0x' } = parseTransaction(params[0] as Hex)
    if (gas <= LARGE_GAS) return null
    refused.set(params[0], paymentsOfCall(data).length)
    return { kind: 'error', code: -32_000, message: 'exceeds block gas limit' }
  })
  try {
    for (const giveUpAt = Date.now() + longestMs; Date.now() < giveUpAt && refused.size === 0;) await delay(POLL_MS)
    await delay(durationMs)
  } finally {
    node.chooseFault(() => null)
  }
  return [...refused.values()]
}

/** Between that of one payment, perhaps with a permit, and of several. */
const LARGE_GAS = 420_000n

/** More than the service ever offers, by default. */
const SPIKE_WEI = 6_000_000_000n

/** Raises the base fee above what a batch offers that waits; it falls again by an eighth with each empty block. */
export async function spikeGas(stack: Troubled, durationMs: number, leastPayments = 1): Promise<BatchSizes> {
  const { rpcUrl } = stack.info
  return await whileBatchPends(stack, leastPayments, async (batches) => {
    await callRpc(rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(SPIKE_WEI)])
    await mine(rpcUrl, 1)
    const sizes = await sizesOf(stack.info, batches, (mined) => mined === undefined)
    await delay(BETWEEN_BLOCKS_MS + durationMs)
    await callRpc(rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(1_000_000n)])
    return sizes
  })
}

const OPEN_BATCHES = `SELECT count(*)::int AS size FROM settlements
  WHERE state = 'signed' AND batch_id IS NOT NULL GROUP BY batch_id`

/** Returns the sizes of the batches that are stored and not confirmed. */
async function readOpenBatches(stack: Pick<CampaignStack, 'sql'>): Promise<BatchSizes> {
  // The database may be restarting.
  return (await stack.sql<{ size: number }>(OPEN_BATCHES).catch(() => [])).map(({ size }) => size)
}

/** Takes the leases of some jobs of open batches away from their workers, which are alive. */
export async function loseLeases(
  stack: Pick<CampaignStack, 'sql'>,
  rounds: number,
  leastPayments = 1,
): Promise<BatchSizes> {
  const met = new Map<string, number>()
  const startedAt = Date.now()
  for (let round = 0; round < rounds;) {
    const lost = await stack
      .sql<{ batch: string; size: number }>(LOSE_HALF)
      // The database may be restarting.
      .catch(() => [])
    for (const { batch, size } of lost) met.set(batch, Math.max(size, met.get(batch) ?? 0))
    // The rounds begin with the first batch.
    const hasBegun = [...met.values()].some((size) => size >= leastPayments) || Date.now() > startedAt + LONGEST_WAIT_MS
    if (hasBegun) round += 1
    await delay(hasBegun ? 100 : POLL_MS)
  }
  return [...met.values()]
}

const LOSE_HALF = `WITH open AS (
    SELECT batch_id, job_id, row_number() OVER (PARTITION BY batch_id ORDER BY job_id) AS place,
      count(*) OVER (PARTITION BY batch_id)::int AS size
    FROM settlements WHERE state = 'signed' AND batch_id IS NOT NULL
  ), lost AS (
    UPDATE jobs SET lease_expires_at = now() - interval '1 second' FROM open
    WHERE jobs.id = open.job_id AND state = 'settling' AND place % 2 = 1 RETURNING open.batch_id, open.size
  )
  SELECT batch_id AS batch, max(size) AS size FROM lost GROUP BY batch_id`

/** Calls `kill`, which kills a worker and starts it again, some time after a batch was stored. */
export async function killDuringBatch(
  stack: Pick<CampaignStack, 'sql'>,
  kill: () => Promise<void>,
  afterMs: number,
  leastPayments = 1,
): Promise<BatchSizes> {
  let sizes: BatchSizes = []
  for (
    const giveUpAt = Date.now() + LONGEST_WAIT_MS;
    Date.now() < giveUpAt && !sizes.some((size) => size >= leastPayments);
    await delay(POLL_MS)
  )
    sizes = await readOpenBatches(stack)
  if (sizes.length === 0) return []
  await delay(afterMs)
  const open = await readOpenBatches(stack)
  await kill()
  return open
}
