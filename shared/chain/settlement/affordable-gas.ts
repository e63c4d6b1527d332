import type { Hex, PublicClient } from 'viem'

/** Returns the most gas that one transaction of a key should reserve at this fee. Rejects when the node does not answer. */
export type ReadAffordableGas = (key: Hex, maxFeePerGas: bigint) => Promise<bigint>

/** About a block's time: what was sent since the balance was read is missing from it. */
const KEPT_MS = 2000
/**
 * One transaction reserves at most this part of the balance. Nodes refuse one that the balance does not cover together
 * with those before it, and a replacement costs more than what it replaces.
 */
const PARTS = 4n

/** Creates the reading of what keys can pay for. One RPC call for each key, shared and kept for a moment. */
export function createReadAffordableGas(client: PublicClient): ReadAffordableGas {
  const balances = new Map<Hex, { readonly balance: Promise<bigint>; readonly until: number }>()
  const readBalance = async (address: Hex) => {
    const known = balances.get(address)
    if (known && performance.now() < known.until) return await known.balance
    const reading = { balance: client.getBalance({ address }), until: performance.now() + KEPT_MS }
    balances.set(address, reading)
    try {
      return await reading.balance
    } catch (error) {
      if (balances.get(address) === reading) balances.delete(address)
      throw error
    }
  }
  return async (key, maxFeePerGas) => (await readBalance(key)) / (PARTS * maxFeePerGas)
}
