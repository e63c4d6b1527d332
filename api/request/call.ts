import type { FastifyRequest } from 'fastify'

/**
 * A call to an operation that was read from another body, such as a tool call. Its headers are those that the operation's
 * endpoint would have received, and its body is the endpoint's JSON.
 */
export type ReadCall = Pick<FastifyRequest, 'id' | 'ip' | 'headers' | 'body'>

/** A call to an operation: a request to its endpoint, or one that was read from another body. */
export type Call = FastifyRequest | ReadCall

/** Returns whether the body of a call is a form, which only a request of its own can be. */
export function isForm(call: Call): call is FastifyRequest {
  return 'isMultipart' in call && call.isMultipart()
}
