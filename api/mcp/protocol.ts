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

/** Runs the tool call of a message. Never throws: what a call fails with is its result. */
export type RunCall = () => Promise<CallToolResult>

/** The protocol, in its revisions of 2025 and 2026, for one message at a time and without sessions. */
export interface McpProtocol {
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
      // JSON rather than a stream of one event: a caller who waits is kept by interim responses, as at the endpoints.
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
