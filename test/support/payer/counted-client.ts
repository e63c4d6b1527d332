import { usdcAbi } from '#shared/chain/network/contracts.ts'
import { DEVNET_ADDRESSES } from '../../../infra/sandbox/chain/devnet.ts'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import type { TestSandbox } from '../processes/test-sandbox.ts'
import type { Payer } from './payer.ts'

/** Returns the official client of a wallet, and counts its answers by status. Each request goes to the next of `apis`. */
export function countedClient(sandbox: TestSandbox, { privateKey }: Payer, apis = 1) {
  const { rpcUrl, network, baseUrl, baseUrls } = sandbox.info
  const statuses: Record<number, number> = {}
  let sent = 0
  const counting: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const balanced = request.url.replace(baseUrl, baseUrls[sent++ % apis] ?? baseUrl)
    const answer = await fetch(request.url === balanced ? request : new Request(balanced, request))
    if (request.url.startsWith(baseUrl)) statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    return answer
  }
  return { ...createPayingClient({ privateKey, rpcUrl, network, fetch: counting }), statuses }
}

/** Returns how many jobs of a payer were charged, how many transfers they paid, and how many permits are on chain. */
export async function paidByPayer(sandbox: TestSandbox, { address: owner }: Payer) {
  const [row] = await sandbox.sql<{ charged: number }>(
    "SELECT count(*)::int AS charged FROM settlements WHERE payer = $1 AND state = 'confirmed'",
    [owner],
  )
  const { client, transfersTo } = sandbox.chain
  const transfers = (await transfersTo(sandbox.info.payTo)).filter(({ from }) => from.toLowerCase() === owner)
  const call = { address: DEVNET_ADDRESSES.usdc, abi: usdcAbi, functionName: 'nonces', args: [owner] } as const
  return { charged: row?.charged, transfers: transfers.length, permits: Number(await client.readContract(call)) }
}
