import type { FareboxContext } from '../context.ts'
import { openNode, readHoldings, readNode } from '../wallet/node-client.ts'
import type { FreeRequest } from '../wire/ask-service.ts'
import { PERMIT2_ADDRESS } from './allowance-terms.ts'
import { allowanceOf, askAllowance } from './read-allowance.ts'

/** What the wallet holds. Amounts are atomic USDC; the native balance is in wei. */
export interface Balance {
  readonly address: string
  readonly network: string
  readonly usdc: bigint
  /** What Permit2 may take. */
  readonly allowance: bigint
  /** ETH for transactions of one's own, which no call needs; `null` without an RPC URL. */
  readonly native: bigint | null
  readonly source: 'rpc' | 'service'
}

type BalanceContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'payer' | 'pins' | 'wallet' | 'rpcUrl'>

/** Reads the wallet's balances from the node, or from the service when no RPC URL is configured. */
export async function readBalance(
  context: BalanceContext,
  request: Pick<FreeRequest, 'signal' | 'patienceMs'> = {},
): Promise<Balance> {
  const { payer: address, rpcUrl, pins, wallet, baseUrl } = context
  const { network, asset } = pins.termsOf(new URL(baseUrl).origin)
  if (rpcUrl !== undefined && network !== undefined && asset !== undefined) {
    const holdings = await readNode(await openNode(rpcUrl), network, (client) =>
      readHoldings(client, asset as `0x${string}`, wallet.address, PERMIT2_ADDRESS),
    )
    return { address, network, ...holdings, source: 'rpc' }
  }
  const status = await askAllowance(context, request)
  return {
    address,
    network: status.network,
    usdc: BigInt(status.balance_usdc_atomic),
    allowance: allowanceOf(status),
    native: null,
    source: 'service',
  }
}
