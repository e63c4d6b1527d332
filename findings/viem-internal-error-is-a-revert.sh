#!/usr/bin/env bash
# viem 2.57.20 (npm): a node's JSON-RPC error -32603 on eth_call (its database is locked, say) is reported as
# ContractFunctionRevertedError, the error of a contract that refused; other codes are not.
# Guess: only code 3 or the words "execution reverted" are a revert; "internal error" is the node's own trouble.
# Seen on 2026-11-28: -32603 "reverted with the following reason: database is locked"; -32000 and -32005 not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts viem@2.57.20 >/dev/null

cat >expected <<'EXPECTED'
3 execution reverted: reverted true
-32603 database is locked: reverted true
-32000 no header: reverted false
-32005 busy: reverted false
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { createServer } from 'node:http'
import { ContractFunctionRevertedError, createPublicClient, http, parseAbi } from 'viem'

let error
const server = createServer(async (request, response) => {
  const { id } = JSON.parse((await request.toArray()).join(''))
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ jsonrpc: '2.0', id, error }))
}).listen(0, '127.0.0.1', async () => {
  const transport = http(`http://127.0.0.1:${server.address().port}`, { retryCount: 0 })
  const client = createPublicClient({ transport })
  const abi = parseAbi(['function totalSupply() view returns (uint256)'])
  const call = { address: `0x${'11'.repeat(20)}`, abi, functionName: 'totalSupply' }
  const errors = { 3: 'execution reverted', '-32603': 'database is locked', '-32000': 'no header', '-32005': 'busy' }
  for (const [code, message] of Object.entries(errors)) {
    error = { code: Number(code), message }
    const thrown = await client.readContract(call).catch((reason) => reason)
    const reverted = thrown.walk((one) => one instanceof ContractFunctionRevertedError) !== null
    console.log(`${code} ${message}: reverted ${reverted}`)
  }
  process.exit()
})
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
