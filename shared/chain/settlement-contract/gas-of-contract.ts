import type { Hex, PublicClient } from 'viem'
import type { Gas, GasReader } from '#shared/chain/settlement/gas-reader.ts'
import { readCode } from '../verification/payer-code.ts'
import { createListedKeys } from './listed-keys.ts'

/** Of those whose gas is not this process's concern. */
export const UNLIMITED_GAS: Gas = {
  balanceWei: 0n,
  settlementsLeft: Number.POSITIVE_INFINITY,
  expectedSettlementWei: 0n,
  isFeeLimited: false,
}

/**
 * Reads for a settlement contract, the present one or an earlier one, the gas of the richest of `keys` that it lists: one
 * that is low on gas sends nothing while another one is not. A process that knows no keys takes it as unlimited. A payment
 * that names a key is read as before.
 */
export function gasOfContracts(client: PublicClient, gas: GasReader, keys: readonly Hex[]): GasReader {
  const listed = createListedKeys(client, keys)
  const isContract = createCodeCheck(client)
  return {
    readGas: async (facilitator) => {
      if (keys.includes(facilitator)) return await gas.readGas(facilitator)
      if (keys.length === 0) return (await isContract(facilitator)) ? UNLIMITED_GAS : await gas.readGas(facilitator)
      const readings = await Promise.all((await listed.read(facilitator)).map((key) => gas.readGas(key)))
      const [highest] = readings.toSorted((one, other) => other.settlementsLeft - one.settlementsLeft)
      // A key of another process; or a contract that lists none of ours, which has no gas.
      return highest ?? (await gas.readGas(facilitator))
    },
  }
}

/** Reads once for each address whether it has code: a settlement contract keeps its code, and there are few. */
function createCodeCheck(client: PublicClient): (address: Hex) => Promise<boolean> {
  const known = new Map<Hex, boolean>()
  return async (address) => {
    const hasCode = known.get(address) ?? (await readCode(client, address)) !== '0x'
    known.set(address, hasCode)
    return hasCode
  }
}
