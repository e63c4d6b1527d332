import { BaseError, HttpRequestError, RpcRequestError } from 'viem'
import { ZodError, z } from 'zod'
import { type Check, failed } from './check.ts'

/** Returns what `work` returns, or a failed check that begins with `problem` when it throws. */
export async function attempted(check: string, problem: string, work: () => Promise<Check>): Promise<Check> {
  try {
    return await work()
  } catch (error) {
    const message = messageOf(error)
    // Failures of the start name their setting.
    return failed(check, message.startsWith(`${problem}: `) ? message : `${problem}: ${message}`)
  }
}

/** Returns one line, without the request that messages of RPC clients contain. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return messageOf(error.errors[0])
  if (error instanceof BaseError) return `${error.shortMessage} ${reasonOf(error)}`.trimEnd()
  const message =
    error instanceof ZodError ? z.prettifyError(error) : String(error instanceof Error ? error.message : error)
  return message.split('\n', 1)[0] ?? ''
}

/** Returns what a node said. Not the body of a response with an error status, which may repeat the path and its key. */
function reasonOf(error: BaseError): string {
  const rpcError = error.walk((cause) => cause instanceof RpcRequestError)
  if (rpcError instanceof RpcRequestError) return rpcError.details
  const httpError = error.walk((cause) => cause instanceof HttpRequestError)
  if (!(httpError instanceof HttpRequestError)) return ''
  return httpError.status === undefined ? httpError.details : `HTTP ${httpError.status}`
}
