import { BaseError, RpcRequestError } from 'viem'

/** JSON-RPC error code of a reverted execution. Some nodes report it only in the message. */
const EXECUTION_REVERTED = 3

/**
 * Returns whether an error is a revert of the contract rather than a failure of the network. Only a revert says
 * anything about a payment. Reads the raw JSON-RPC error, because viem's contract errors also treat an internal error
 * of the node (-32603) as a revert.
 */
export function isRevert(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  const rpcError = error.walk((cause) => cause instanceof RpcRequestError)
  if (!(rpcError instanceof RpcRequestError)) return false
  return rpcError.code === EXECUTION_REVERTED || /\bexecution reverted\b/i.test(rpcError.details)
}
