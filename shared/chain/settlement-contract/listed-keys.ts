import { BaseError, ContractFunctionZeroDataError, type Hex, type PublicClient } from 'viem'
import { settlementContractAbi } from '../network/contracts.ts'
import { isRevert } from '../network/rpc-failure.ts'

/** Which of this process's keys a settlement contract lists. */
export interface ListedKeys {
  /** Returns them in their order. One RPC call for each key, unless read a moment ago. Rejects when none answers. */
  read(contract: Hex): Promise<readonly Hex[]>
  /** Makes the next read ask again, as after a batch that the contract refused. */
  forget(contract: Hex): void
}

/** A key that was taken off the list costs at most the batches of this time; each reverts, and is then signed again. */
const KEPT_MS = 15_000
/** Short, so that work resumes soon after the owner has listed a key. */
const KEPT_WHEN_NONE_MS = 2000

interface Reading {
  readonly listed: Promise<readonly Hex[]>
  until: number
}

/** Creates the list of `keys` for each contract. An address without the contract's code lists no key. */
export function createListedKeys(client: PublicClient, keys: readonly Hex[]): ListedKeys {
  const readings = new Map<string, Reading>()
  return {
    read: async (contract) => {
      const known = readings.get(contract)
      if (known && performance.now() < known.until) return await known.listed
      const reading: Reading = { listed: readListed(client, contract, keys), until: Number.POSITIVE_INFINITY }
      readings.set(contract, reading)
      try {
        const listed = await reading.listed
        reading.until = performance.now() + (listed.length > 0 ? KEPT_MS : KEPT_WHEN_NONE_MS)
        return listed
      } catch (error) {
        if (readings.get(contract) === reading) readings.delete(contract)
        throw error
      }
    },
    forget: (contract) => void readings.delete(contract),
  }
}

async function readListed(client: PublicClient, contract: Hex, keys: readonly Hex[]): Promise<readonly Hex[]> {
  const areListed = await Promise.all(keys.map((key) => isListed(client, contract, key)))
  return keys.filter((_, index) => areListed[index])
}

async function isListed(client: PublicClient, contract: Hex, key: Hex): Promise<boolean> {
  try {
    const call = { address: contract, abi: settlementContractAbi, functionName: 'isKey', args: [key] } as const
    return await client.readContract(call)
  } catch (error) {
    // An account without code returns nothing; another contract reverts.
    if (isWithoutAnswer(error) || isRevert(error)) return false
    throw error
  }
}

function isWithoutAnswer(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  return error.walk((cause) => cause instanceof ContractFunctionZeroDataError) !== null
}
