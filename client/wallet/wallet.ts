import type { Address, Hex, LocalAccount, TypedDataDefinition } from 'viem'

/** Signs payments for one address. The private key is never a property of it. */
export interface Wallet {
  readonly address: Address
  signTypedData(message: TypedData): Promise<Hex>
  signMessage(message: { message: string | { raw: Hex } }): Promise<Hex>
  /**
   * Returns the secret that idempotency keys are derived from, the same in every process with this wallet; `null` when
   * the wallet's signatures differ each time.
   */
  keySecret(): Promise<Uint8Array | null>
}

export type TypedData = Pick<TypedDataDefinition, 'domain' | 'types' | 'primaryType' | 'message'>

/** The part of a viem local account that is needed. */
export type SigningAccount = Pick<LocalAccount, 'address' | 'signMessage' | 'signTypedData'>
