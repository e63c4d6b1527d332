import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'

/** The settlement keys of this process by their lower-case address. */
export interface SettlementKeys {
  readonly facilitators: readonly `0x${string}`[]
  /** Throws for an address whose key is elsewhere. */
  accountOf(facilitator: `0x${string}`): PrivateKeyAccount
}

export function settlementKeys(privateKeys: readonly `0x${string}`[]): SettlementKeys {
  const accounts = new Map(
    privateKeys
      .map((key) => privateKeyToAccount(key))
      .map((account) => [account.address.toLowerCase() as `0x${string}`, account]),
  )
  return {
    facilitators: [...accounts.keys()],
    accountOf: (facilitator) => {
      const account = accounts.get(facilitator)
      if (!account) throw new Error(`no settlement key for the facilitator ${facilitator}`)
      return account
    },
  }
}
