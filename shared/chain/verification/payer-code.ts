import type { Hex, PublicClient } from 'viem'

/**
 * Whether the account of a payer may pay. Permit2 lets an account with code validate signatures itself, with any amount
 * of gas and a result that may change at any time, so such a payment proves nothing until it is settled.
 */
type PayerCodeCheck =
  /** The account has no code, or delegates to a contract that the operator allows. */
  | { outcome: 'allowed' }
  | { outcome: 'refused'; code: 'payer_has_code'; detail: string }
  | { outcome: 'unreachable'; cause: unknown }

/** The code of an account, as far as a policy needs it. */
export interface AccountCode {
  /** In bytes; 0 for an account without code. */
  readonly size: bigint
  /** The first 23 bytes, which are a whole delegation (EIP-7702), filled up with zeros. */
  readonly prefix: `0x${string}`
}

/** Applies the operator's policy for accounts with code. */
export interface PayerCodePolicy {
  /** Judges code that was read already. */
  judge(code: AccountCode): Exclude<PayerCodeCheck, { outcome: 'unreachable' }>
  /** Reads the account's code at the latest block: one RPC call. It may be different in the next block. */
  check(payer: `0x${string}`): Promise<PayerCodeCheck>
}

/** The code of an account that delegates to a contract (EIP-7702): this prefix and the address of the contract. */
const DELEGATION = /^0xef0100([0-9a-f]{40})$/i
const DELEGATION_BYTES = 23

/**
 * Creates the policy that accounts without code may pay, and those that delegate to one of `allowedDelegates` (in lower
 * case). A contract's own code is never allowed.
 */
export function createPayerCodePolicy(client: PublicClient, allowedDelegates: readonly Hex[] = []): PayerCodePolicy {
  const judge: PayerCodePolicy['judge'] = ({ size, prefix }) => {
    if (size === 0n) return { outcome: 'allowed' }
    const delegate = size === BigInt(DELEGATION_BYTES) ? DELEGATION.exec(prefix)?.[1]?.toLowerCase() : undefined
    if (delegate !== undefined && allowedDelegates.includes(`0x${delegate}`)) return { outcome: 'allowed' }
    return { outcome: 'refused', code: 'payer_has_code', detail: explain(delegate) }
  }
  return {
    judge,
    check: async (payer) => {
      try {
        return judge(await readAccountCode(client, payer))
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
  }
}

/** Reads the code of an account at the latest block. Throws for an answer that is not code. */
export async function readAccountCode(client: PublicClient, address: Hex): Promise<AccountCode> {
  const code = await readCode(client, address)
  return { size: BigInt((code.length - 2) / 2), prefix: code.slice(0, 2 + DELEGATION_BYTES * 2) as Hex }
}

/** Reads an account's code at the latest block. Throws for an answer that is not code. */
export async function readCode(client: PublicClient, address: Hex): Promise<Hex> {
  const code: unknown = await client.request({ method: 'eth_getCode', params: [address, 'latest'] })
  if (typeof code !== 'string' || !/^0x[0-9a-f]*$/i.test(code)) throw new Error('the RPC returned no code')
  return code as Hex
}

function explain(delegate: string | undefined): string {
  return delegate === undefined
    ? 'The payer is a contract account. Pay from an account without code.'
    : `The payer’s account runs the code of 0x${delegate} (EIP-7702), which this service does not allow. Pay from an account without code, or one that delegates to an allowed contract.`
}
