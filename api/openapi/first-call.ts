import type { Catalog } from '#shared/catalog/catalog.ts'
import { operationById } from '#shared/operations/registry.ts'
import { exampleRequest } from '../schemas/operation-schemas.ts'

/**
 * Returns the first paid call in three steps, as Markdown. The program is complete and runs as it stands: it is all that
 * most callers read before they pay.
 */
export function firstCall(catalog: Catalog, publicBaseUrl: string, network: string): string {
  return [
    'The first paid call takes three steps:',
    '',
    '1. Have a wallet with USDC on Base. One USDC pays for hundreds of short calls. It needs no ETH and no token approval.',
    '2. `npm install @x402/fetch @x402/evm viem`, and save this program as `first-call.mts`:',
    '',
    '```ts',
    program(catalog, publicBaseUrl, network),
    '```',
    '',
    '3. `PRIVATE_KEY=0x… node first-call.mts` (Node 24) asks for the price (402), signs it, repeats the request with the signature, and prints the answer and the receipt of what it was charged. `RPC_URL` names another node of Base than the public one.',
  ].join('\n')
}

function program(catalog: Catalog, publicBaseUrl: string, network: string): string {
  const operation = operationById('createChatCompletion')
  const body = JSON.stringify(exampleRequest(operation, catalog), null, 2).replaceAll('\n', '\n  ')
  const { origin } = new URL(publicBaseUrl)
  return `import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'

const origin = '${origin}'
const account = privateKeyToAccount(process.env['PRIVATE_KEY'] as \`0x\${string}\`)
const rpcUrl = process.env['RPC_URL'] ?? 'https://mainnet.base.org'
const client = new x402Client().register('${network}', new UptoEvmScheme(account, { rpcUrl }))
// Pays at most 1 USDC for a call, unless you set another limit with client.setSpendControls().
const payingFetch = wrapFetchWithPayment(fetch, client)

const response = await payingFetch(\`\${origin}${operation.path}\`, {
  method: 'POST',
  // A new key for each new request. Repeating a request with its key is charged once.
  headers: { 'content-type': 'application/json', 'x-idempotency-key': crypto.randomUUID() },
  body: JSON.stringify(${body}),
})
const answer = await response.text()
if (!response.ok) throw new Error(answer)
console.log(answer)

const receipt = await fetch(\`\${origin}/v1/receipts/\${response.headers.get('x-receipt-id')}\`, {
  headers: { authorization: \`Bearer \${response.headers.get('x-receipt-token')}\` },
})
console.log(await receipt.text())`
}
