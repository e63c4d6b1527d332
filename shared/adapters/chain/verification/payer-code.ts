import type { PublicClient } from 'viem'
import type { AccountCode, PayerCodePolicy } from '#shared/payment/payer-code.ts'

type Hex = `0x${string}`

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
