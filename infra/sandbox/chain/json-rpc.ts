/**
 * Calls one JSON-RPC method of a node over HTTP and returns its result.
 *
 * @throws Error with the node's message when it answers with an error, and fetch's own error when it cannot be reached.
 */
export async function callRpc<Result>(rpcUrl: string, method: string, parameters: readonly unknown[]): Promise<Result> {
  const response = await fetch(rpcUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: parameters }),
  })
  const answer = (await response.json()) as { result: Result; error?: { message: string } }
  if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`)
  return answer.result
}
