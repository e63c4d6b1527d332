import { BaseError, HttpRequestError, RpcRequestError, TimeoutError } from 'viem'

/** JSON-RPC error code of a reverted execution. Some nodes report it only in the message. */
const EXECUTION_REVERTED = 3
/** A revert, and the other ends of an execution that geth, reth and anvil report as plain errors. */
const EXECUTION_FAILED = /\bexecution reverted\b|\bout ?of ?gas\b|\binvalid (opcode|jump)\b|\bstack (over|under)flow\b/i
/** The sender's balance, or the fee cap, is too low for the gas fees of the call. */
const FEES_REFUSED = /insufficient funds for gas|lack of funds|less than (the )?block base fee/i
/** The block that a read refers to, perhaps as the latest one, was replaced or has not reached this node. */
const BLOCK_MISSING = /BlockOutOfRange|\b(block|header)( for hash)? not found\b|\bunknown block\b/i
/** The node has this transaction, or another of this service with the same nonce and a higher fee. */
const ALREADY_SENT = /already known|already imported|known transaction|replacement transaction underpriced/i
const ACCOUNT_NONCE_USED = /nonce too low/i
/**
 * The pool holds as many transactions of this sender, or of all, as it will: geth (`ErrTxPoolOverflow`,
 * `ErrInflightTxLimitReached`) and reth, which says the first for a sender with 16 pending ones, too
 * (`SpammerExceededCapacity` becomes `TxPoolOverflow`, -32003). A replacement that is refused for its price is no such
 * refusal: the pool has another transaction of ours.
 */
const POOL_FULL = /\b(tx ?pool|transaction pool|mempool) is full\b|\bin-flight transaction limit reached\b/i
/**
 * The transaction has too many bytes or too high a gas limit, for a block, for a transaction (EIP-7825), or for what the
 * node forwards: as geth, reth, Erigon, anvil; Nethermind and Besu; and gateways say it.
 */
const TOO_LARGE = new RegExp(
  [
    String.raw`\boversized data\b|\bmax_input_bytes\b|\bintrinsic gas too high\b`,
    String.raw`\b(exceeds|greater than) (the )?(block|max|transaction|tx).{0,40}\bgas ?limit`,
    String.raw`\bgas ?limit\b.{0,40}\b(too high|greater than|exceeds)\b`,
    String.raw`(TxSize|GasLimit|GasLimitCap)Exceeded\b|\bEXCEEDS_\w*GAS_LIMIT\b`,
    String.raw`\b(transaction|request body|request entity|payload) (is )?too (big|large)\b`,
  ].join('|'),
  'i',
)
const CONTENT_TOO_LARGE = 413
const TOO_MANY_REQUESTS = 429
/** How providers report that a key has no calls left for now. Each has a code of its own. */
const RATE_LIMITED =
  /\brate.?limit|\btoo many request|\brequests? (rate|limit|count)\b|\bquota\b|\b(compute units|throughput)\b/i
/** The node gave up on one call, or its answer would have been too long. */
const CALL_ABANDONED =
  /\btime[d ]?-?out\b|execution aborted|\bdeadline exceeded\b|(response|result).{0,20}(too (big|large)|exceed)/i

/**
 * Returns whether an error is the end of the contract's execution rather than a failure of the network. Only that says
 * anything about a payment. Reads the raw JSON-RPC error, because viem's contract errors also treat an internal error
 * of the node (-32603) as a revert.
 */
export function isRevert(error: unknown): boolean {
  const rpcError = rpcErrorOf(error)
  return rpcError !== null && (rpcError.code === EXECUTION_REVERTED || EXECUTION_FAILED.test(rpcError.details))
}

/** Returns whether the node refused to simulate a call for its gas fees, which says nothing about the payment. */
export function isFeeRefusal(error: unknown): boolean {
  const rpcError = rpcErrorOf(error)
  return rpcError !== null && FEES_REFUSED.test(rpcError.details)
}

/**
 * Returns whether a call took too long or its answer was too long. The network may be at fault, or what the call
 * executes.
 */
export function isAbandoned(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  const rpcError = rpcErrorOf(error)
  if (rpcError) return CALL_ABANDONED.test(rpcError.details)
  return error.walk((cause) => cause instanceof TimeoutError || isOversize(cause)) !== null
}

/** Returns whether a read met a reorganization, or a node behind the others. The same read succeeds moments later. */
export function isMissingBlock(error: unknown): boolean {
  return isNodeError(error, BLOCK_MISSING)
}

/** Returns whether the node refuses this key's calls for now, whatever they are. */
export function isRateLimit(error: unknown): boolean {
  return isNodeError(error, RATE_LIMITED) || hasStatus(error, TOO_MANY_REQUESTS)
}

/** Returns whether the node takes no further transaction for now. It keeps those that it has, and answers all else. */
export function isPoolFull(error: unknown): boolean {
  return isNodeError(error, POOL_FULL)
}

export function isAlreadySent(error: unknown): boolean {
  return isNodeError(error, ALREADY_SENT)
}

export function isAccountNonceUsed(error: unknown): boolean {
  return isNodeError(error, ACCOUNT_NONCE_USED)
}

/** Returns whether the node, or the gateway before it, takes no transaction of this size. */
export function isTooLarge(error: unknown): boolean {
  return isNodeError(error, TOO_LARGE) || hasStatus(error, CONTENT_TOO_LARGE)
}

/** Returns whether a gateway answered with this status, and without an error of the node. */
function hasStatus(error: unknown, status: number): boolean {
  if (!(error instanceof BaseError)) return false
  return error.walk((cause) => cause instanceof HttpRequestError && cause.status === status) !== null
}

/** Returns whether a node reports `what`. The text of a revert is that of a contract, which a payer may have written. */
function isNodeError(error: unknown, what: RegExp): boolean {
  const rpcError = rpcErrorOf(error)
  return rpcError !== null && !isRevert(error) && what.test(rpcError.details)
}

function rpcErrorOf(error: unknown): RpcRequestError | null {
  if (!(error instanceof BaseError)) return null
  const rpcError = error.walk((cause) => cause instanceof RpcRequestError)
  return rpcError instanceof RpcRequestError ? rpcError : null
}

/** Returns whether a response exceeded the transport's limit of bytes. */
function isOversize(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE'
}
