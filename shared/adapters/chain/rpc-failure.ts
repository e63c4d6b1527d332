import { BaseError, RpcRequestError } from 'viem'

/** JSON-RPC's code for a reverted execution; some nodes only say so in the message. */
const EXECUTION_REVERTED = 3

/**
 * Whether an error is the contract's own answer (a revert) as opposed to the network's failure to answer. Only a revert
 * says anything about a payment. viem's contract errors also count an internal error of the node (-32603) as a revert,
 * so the raw JSON-RPC error is looked at instead.
 */
export function isRevert(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  const rpcError = error.walk((cause) => cause instanceof RpcRequestError)
  if (!(rpcError instanceof RpcRequestError)) return false
  return rpcError.code === EXECUTION_REVERTED || /\bexecution reverted\b/i.test(rpcError.details)
}
