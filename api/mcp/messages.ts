import { AppError } from '#shared/errors/app-error.ts'

/** Codes of JSON-RPC 2.0, section 5.1. */
const PARSE_ERROR = -32_700
const INVALID_REQUEST = -32_600

/** The answer to a body that is no message: JSON-RPC names no request then. */
export interface MessageRefusal {
  readonly status: 400
  readonly body: object
}

/** Returns the refusal of a body that cannot be parsed; `null` for any other error. */
export function refuseUnreadable(error: unknown, requestId: string): MessageRefusal | null {
  if (!(error instanceof AppError) || (error.code !== 'invalid_json' && error.code !== 'duplicate_field')) return null
  return refuse(PARSE_ERROR, error.message, error.code, requestId)
}

/** Returns the refusal of a parsed body that is not one message; `null` for an object, which the protocol judges. */
export function refuseOther(message: unknown, requestId: string): MessageRefusal | null {
  if (message === undefined) return refuse(PARSE_ERROR, 'The body is empty.', 'invalid_json', requestId)
  if (Array.isArray(message))
    return refuse(
      INVALID_REQUEST,
      'Batches are not taken: send one message in each request.',
      'invalid_json',
      requestId,
    )
  if (typeof message === 'object' && message !== null) return null
  return refuse(INVALID_REQUEST, 'The body must be one JSON-RPC message.', 'invalid_json', requestId)
}

function refuse(code: number, message: string, error: string, requestId: string): MessageRefusal {
  const data = { code: error, payment: 'none', retry: 'never', request_id: requestId }
  return { status: 400, body: { jsonrpc: '2.0', id: null, error: { code, message, data } } }
}
