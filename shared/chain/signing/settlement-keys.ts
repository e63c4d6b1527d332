import { keccak256, serializeTransaction, type TransactionSerializableEIP1559 } from 'viem'
import { privateKeyToAddress } from 'viem/accounts'
import { signHash } from './secp256k1.ts'

/** The settlement keys of this process by lower-case address. */
export interface SettlementKeys {
  readonly facilitators: readonly `0x${string}`[]
  /** Returns the raw signed transaction. Throws for an address whose key this process does not have. */
  signTransaction(facilitator: `0x${string}`, transaction: TransactionSerializableEIP1559): `0x${string}`
}

export function settlementKeys(privateKeys: readonly `0x${string}`[]): SettlementKeys {
  const keys = new Map(privateKeys.map((key) => [privateKeyToAddress(key).toLowerCase() as `0x${string}`, key]))
  return {
    facilitators: [...keys.keys()],
    signTransaction: (facilitator, transaction) => {
      const key = keys.get(facilitator)
      if (key === undefined) throw new Error(`no settlement key for the facilitator ${facilitator}`)
      return serializeTransaction(transaction, signHash(keccak256(serializeTransaction(transaction)), key))
    },
  }
}
