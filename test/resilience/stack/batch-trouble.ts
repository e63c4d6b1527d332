import { setTimeout as delay } from 'node:timers/promises'
import { encodeFunctionData, parseAbi, parseTransaction, toHex } from 'viem'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import { ELSEWHERE, payerCalls } from '../../support/payer/payer.ts'
import { pick } from '../calls/random.ts'
import { mine, reorganize, setMining } from '../nemesis/chain-faults.ts'
import { type CalledPayment, listKeys, sendUrgently, untilBatchPends } from './pending-batches.ts'
import type { CampaignStack } from './stack.ts'

const TRANSFER = parseAbi(['function transfer(address to, uint256 value) returns (bool)'])
/** Longest wait for a batch to be sent while no blocks are mined. */
const LONGEST_WAIT_MS = 4000

type Troubled = Pick<CampaignStack, 'info' | 'reorganizedAt' | 'node'>

/** Mines nothing until a batch is sent, lets `act` see its payments, and resumes mining. */
async function whileBatchPends(
  { info }: Troubled,
  act: (payments: readonly CalledPayment[], contract: `0x${string}`) => Promise<void>,
): Promise<void> {
  const { rpcUrl, settlementContract } = info
  if (!settlementContract) throw new Error('the stack has no settlement contract')
  await setMining(rpcUrl, false)
  try {
    const payments = await untilBatchPends(rpcUrl, settlementContract, LONGEST_WAIT_MS)
    if (payments) await act(payments, settlementContract)
  } finally {
    await setMining(rpcUrl, true)
  }
  // A later reorganization must not undo it.
  await mine(rpcUrl, 3)
}

/** Mines a batch and replaces its block by an empty one, when some of its jobs may be completed. */
export async function reorganizeBatch(stack: Troubled, seenForMs: number, depth: number): Promise<void> {
  const { info, reorganizedAt } = stack
  await whileBatchPends(stack, async () => {
    await mine(info.rpcUrl, 1)
    await delay(seenForMs)
    reorganizedAt.push(Date.now())
    await reorganize(info.rpcUrl, depth)
  })
}

/** Lets a batch wait until the service has replaced it by a higher fee, perhaps twice. */
export async function replaceBatch(stack: Troubled, waitMs: number): Promise<void> {
  await whileBatchPends(stack, async () => {
    await delay(waitMs)
  })
}

const PAYER_DEEDS = ['burns_nonce', 'revokes', 'spends', 'takes_code'] as const
export type PayerDeed = (typeof PAYER_DEEDS)[number]

/** Lets some payers of a batch prevent their payments in its own block, before it; most of what they did is undone. */
export async function failPartOfBatch(stack: Troubled, random: () => number, deeds = PAYER_DEEDS): Promise<void> {
  const { rpcUrl } = stack.info
  const undo: (() => Promise<unknown>)[] = []
  await whileBatchPends(stack, async (payments) => {
    // One of them at least.
    for (const [index, payment] of payments.entries())
      if (index === 0 || random() < 0.4) await prevent(rpcUrl, payment, pick(random, deeds), undo)
    await mine(rpcUrl, 1)
    for (const act of undo) await act()
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
export async function revertBatch(stack: Troubled, unlistedMs: number): Promise<void> {
  const { rpcUrl, payTo, settlementAddresses } = stack.info
  await whileBatchPends(stack, async (_, contract) => {
    const listed = { rpcUrl, contract, owner: payTo, keys: settlementAddresses }
    await listKeys(listed, false)
    await mine(rpcUrl, 1)
    await delay(unlistedMs)
    await listKeys(listed, true)
    await mine(rpcUrl, 1)
  })
}

/** Lets the nodes refuse transactions of more gas than one payment needs, as those of a batch with several. */
export async function refuseLarge({ node }: Troubled, durationMs: number): Promise<void> {
  if (!node) throw new Error('the stack has no proxy in front of the node')
  node.chooseFault(({ method, params }) => {
    if (method !== 'eth_sendRawTransaction') return null
    const { gas = 0n } = parseTransaction(params[0] as `0x${string}`)
    return gas > LARGE_GAS ? { kind: 'error', code: -32_000, message: 'exceeds block gas limit' } : null
  })
  try {
    await delay(durationMs)
  } finally {
    node.chooseFault(() => null)
  }
}

/** Between that of one payment, perhaps with a permit, and of several. */
const LARGE_GAS = 420_000n

/** Raises the base fee above what was offered; it falls again by an eighth with each empty block. */
export async function spikeGas({ info: { rpcUrl } }: Troubled, durationMs: number): Promise<void> {
  await callRpc(rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(5_000_000_000n)])
  await mine(rpcUrl, 1)
  await delay(durationMs)
  await callRpc(rpcUrl, 'anvil_setNextBlockBaseFeePerGas', [toHex(1_000_000n)])
  await mine(rpcUrl, 1)
}

/** Takes the leases of some jobs of open batches away from their workers, which are alive. */
export async function loseLeases(stack: Pick<CampaignStack, 'sql'>, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    await stack
      .sql(
        `UPDATE jobs SET lease_expires_at = now() - interval '1 second' WHERE state = 'settling' AND id IN (
           SELECT job_id FROM (SELECT job_id, row_number() OVER (PARTITION BY batch_id ORDER BY job_id) AS place
             FROM settlements WHERE state = 'signed' AND batch_id IS NOT NULL) AS open WHERE place % 2 = 1)`,
      )
      // The database may be restarting.
      .catch(() => undefined)
    await delay(100)
  }
}
