import { AppError } from '#shared/errors/app-error.ts'
import { operationById } from '#shared/operations/registry.ts'
import { isObject } from '#shared/operations/text/tool-arguments.ts'
import { isPaidTool, PAID_TOOL_NAMES, QUOTE_TOOL, TOOL_OPERATIONS } from '../schemas/tool-operations.ts'
import { unknownField } from './field-errors.ts'
import { asObject } from './json-body.ts'
import { prepareBody, type ReadingCatalogs } from './prepare-request.ts'
import { refuseKeyNames } from './private-keys.ts'
import { type PreparedQuote, prepareQuote } from './quote-request.ts'

/** The fields of a JSON-RPC message that decide what is done with it, of whatever types a caller sent. */
interface Message {
  readonly method?: unknown
  readonly params?: { readonly name?: unknown; readonly arguments?: unknown; readonly _meta?: unknown } | null
}

/** A tool call of this server, as its caller sent it. */
export interface ToolCall {
  readonly tool: string
  readonly arguments: unknown
  /** The caller's `_meta`; empty when it is missing or not an object. */
  readonly meta: Readonly<Record<string, unknown>>
}

/** Returns the call of one of this server's tools; `null` for any other message. */
export function toolCallOf(message: unknown): ToolCall | null {
  const { method, params } = (isObject(message) ? message : {}) as Message
  if (method !== 'tools/call' || !isObject(params)) return null
  const { name, arguments: given = {}, _meta: meta } = params
  if (name !== QUOTE_TOOL && !isPaidTool(name)) return null
  return { tool: name, arguments: given, meta: isObject(meta) ? meta : {} }
}

/** Returns a copy of a message without the arguments of its tool call, which may be long. */
export function withoutArguments(message: unknown): unknown {
  if (!isObject(message) || !isObject(message['params']) || !('arguments' in message['params'])) return message
  return { ...message, params: { ...message['params'], arguments: {} } }
}

/** Returns the object inside a message that has a recording as one of its members, if it is a call with a recording. */
export function recordingHolderOf(message: unknown): unknown {
  const call = toolCallOf(message)
  if (call?.tool === 'transcribe') return call.arguments
  const priced = call?.tool === QUOTE_TOOL && isObject(call.arguments) ? call.arguments : {}
  return priced['tool'] === 'transcribe' ? priced['arguments'] : null
}

/** Prepares the arguments of a call as the endpoint prepares its body. Pure. Throws the 400s of the endpoint. */
export function prepareCall({ tool, arguments: given }: ToolCall, catalogs: ReadingCatalogs): PreparedQuote {
  refuseKeyNames(asObject(given), 'the arguments')
  if (!isPaidTool(tool)) return prepareQuote(quoteRequestOf(given), catalogs)
  const operation = operationById(TOOL_OPERATIONS[tool])
  return { operation, prepared: prepareBody(operation, given, catalogs), wantsChallenge: false }
}

/** Translates the arguments of the quote tool into the body of `POST /v1/quotes`. */
function quoteRequestOf(given: unknown): unknown {
  const { tool, arguments: request, ...others } = asObject(given)
  const [other] = Object.keys(others)
  if (other !== undefined) throw unknownField(other)
  if (!isPaidTool(tool))
    throw new AppError('invalid_field', {
      param: 'tool',
      message: `tool must be one of ${PAID_TOOL_NAMES.join(', ')}.`,
    })
  if (request === undefined)
    throw new AppError('missing_field', { param: 'arguments', message: 'arguments is required.' })
  return { operation: TOOL_OPERATIONS[tool], request }
}
