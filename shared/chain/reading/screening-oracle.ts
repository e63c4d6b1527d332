import { LRUCache } from 'lru-cache'
import { type Address, BaseError, ContractFunctionZeroDataError, type PublicClient, parseAbi, zeroAddress } from 'viem'
import { namingSetting } from '#shared/runtime/start-process.ts'
import { isRevert } from '../network/rpc-failure.ts'
import { readCode } from '../verification/payer-code.ts'

/** As Chainalysis publishes it: go.chainalysis.com/chainalysis-oracle-docs.html, `isSanctioned`. */
const ORACLE_ABI = parseAbi(['function isSanctioned(address addr) view returns (bool)'])
const KEPT_MS = 600_000
const KEPT_ADDRESSES = 10_000

/** Creates a reader of a list on chain. Its answers are kept for ten minutes. Rejects when no node answers. */
export function createScreeningOracle(client: PublicClient, oracle: Address): (payer: string) => Promise<boolean> {
  const known = new LRUCache<string, Promise<boolean>>({ max: KEPT_ADDRESSES, ttl: KEPT_MS })
  return async (payer) => {
    const kept = known.get(payer)
    if (kept) return await kept
    const reading = readOracle(client, oracle, payer as Address)
    known.set(payer, reading)
    return await reading.catch((error: unknown) => {
      if (known.peek(payer) === reading) known.delete(payer)
      throw error
    })
  }
}

/**
 * Throws a `StartFailure` that names PAYER_SCREENING_ORACLE for an address that does not answer as a list does: it would
 * refuse every payment. A chain that gives no usable answer prevents no start.
 */
export async function requireScreeningOracle(client: PublicClient, oracle: Address): Promise<void> {
  const problem = await findOracleProblem(client, oracle).catch(() => null)
  if (problem !== null)
    await namingSetting('PAYER_SCREENING_ORACLE', () => {
      throw new Error(problem)
    })
}

/** Returns why an address does not answer as a list does; `null` for one that does. Rejects when no node answers. */
export async function findOracleProblem(client: PublicClient, oracle: Address): Promise<string | null> {
  if ((await readCode(client, oracle)) === '0x')
    return `there is no contract at ${oracle} on this chain; Chainalysis' list has an address of its own on Base`
  try {
    await readOracle(client, oracle, zeroAddress)
    return null
  } catch (error) {
    if (!isRevert(error) && !isEmptyAnswer(error)) throw error
    return `the contract at ${oracle} does not answer isSanctioned(address)`
  }
}

function isEmptyAnswer(error: unknown): boolean {
  return error instanceof BaseError && error.walk((cause) => cause instanceof ContractFunctionZeroDataError) !== null
}

async function readOracle(client: PublicClient, oracle: Address, payer: Address): Promise<boolean> {
  return await client.readContract({
    address: oracle,
    abi: ORACLE_ABI,
    functionName: 'isSanctioned',
    args: [payer],
  })
}
