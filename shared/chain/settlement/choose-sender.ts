import { batchGasOf } from '../settlement-contract/batch-call.ts'
import type { ListedKeys } from '../settlement-contract/listed-keys.ts'
import { SETTLE_WITH_PERMIT_GAS } from '../verification/settlement-call.ts'
import type { ReadAffordableGas } from './affordable-gas.ts'

type Hex = `0x${string}`

/** Who sends a settlement, and through which contract; `null` when the key settles directly. */
export interface Sender {
  readonly sender: Hex
  readonly contract: Hex | null
  /** See `PreparedSettlement`. */
  readonly affordableGas: bigint | null
}

/** What a key must afford to take its turn: any payment. */
const LEAST_GAS = batchGasOf([SETTLE_WITH_PERMIT_GAS])

/**
 * Creates the choice of the key that settles for a facilitator that payers signed: that key itself, or one of those that
 * the settlement contract lists, which take turns. One that is low on gas is left out while another one is not: its
 * account nonces would be stuck. Returns `not_listed` when there is none. Rejects when the chain cannot be read.
 */
export function createChooseSender(
  keys: readonly Hex[],
  listedKeys: ListedKeys,
  readAffordableGas: ReadAffordableGas,
): (facilitator: Hex, maxFeePerGas: bigint) => Promise<Sender | 'not_listed'> {
  let turn = 0
  return async (facilitator, maxFeePerGas) => {
    if (keys.includes(facilitator)) return { sender: facilitator, contract: null, affordableGas: null }
    const listed = await Promise.all(
      (await listedKeys.read(facilitator)).map(async (sender) => ({
        sender,
        contract: facilitator,
        affordableGas: await readAffordableGas(sender, maxFeePerGas),
      })),
    )
    const able = listed.filter(({ affordableGas }) => affordableGas >= LEAST_GAS)
    const choices = able.length > 0 ? able : listed
    const chosen = choices[turn % choices.length]
    turn += 1
    return chosen ?? 'not_listed'
  }
}
