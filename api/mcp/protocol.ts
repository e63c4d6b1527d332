import {
  type CallToolResult,
  createMcpHandler,
  isLegacyRequest,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type Tool,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { AppError } from '#shared/errors/app-error.ts'

/** Runs the tool call of a message. Never throws: what a call fails with is its result. */
type RunCall = () => Promise<CallToolResult>

/** The protocol, in its revisions of 2025 and 2026, for one message at a time and without sessions. */
interface McpProtocol {
  /** Answers a message; `call` runs the one that it makes, and is `null` for any other message. */
  answer(request: Request, message: object, call: RunCall | null): Promise<Response>
}

interface ProtocolOptions {
  readonly tools: readonly Tool[]
  readonly instructions: string
  readonly version: string
  readonly websiteUrl: string
}

/** Longer names are not repeated in an answer. */
const LONGEST_NAME = 100

export function createProtocol({ tools, instructions, version, websiteUrl }: ProtocolOptions): McpProtocol {
  const outputSchemas = new Map(tools.map(({ name, outputSchema }) => [name, outputSchema]))
  const calls = new WeakMap<Request, RunCall>()

  function createServer(run: RunCall | undefined): Server {
    const server = new Server(
      { name: 'farebox', title: 'farebox', version, websiteUrl },
      { capabilities: { tools: {} }, instructions },
    )
    server.setRequestHandler('tools/list', () => ({ tools: [...tools] }))
    server.setRequestHandler('tools/call', async ({ params: { name } }) => {
      if (!run || !outputSchemas.has(name)) throw unknownTool(name)
      return server.projectCallToolResult(await run(), outputSchemas.get(name))
    })
    return server
  }

  const modern = createMcpHandler(({ requestInfo }) => createServer(requestInfo && calls.get(requestInfo)), {
    legacy: 'reject',
    // Clients ask for the tools again: a publication is not announced.
    maxSubscriptions: 0,
  })

  return {
    answer: async (request, message, call) => {
      if (!(await isLegacyRequest(request, message))) {
        if (call) calls.set(request, call)
        return await modern.fetch(request, { parsedBody: message })
      }
      // JSON rather than a stream of one event: a caller who waits is held, as at the endpoints.
      const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
      const server = createServer(call ?? undefined)
      await server.connect(transport)
      try {
        return await transport.handleRequest(request, { parsedBody: message })
      } finally {
        await server.close()
      }
    },
  }
}

function unknownTool(name: string): ProtocolError {
  const shown = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${JSON.stringify(shown)}.`)
}

/** Codes of JSON-RPC 2.0, section 5.1. */
const PARSE_ERROR = -32_700
const INVALID_REQUEST = -32_600

/** The answer to a body that is no message: JSON-RPC names no request then. */
interface MessageRefusal {
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
