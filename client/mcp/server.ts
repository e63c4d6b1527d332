import { type CallToolResult, McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { listedInput, listedOutput } from './call/listed-schemas.ts'
import { toolError } from './call/tool-error.ts'
import type { Confirmations } from './confirm/confirmations.ts'
import { registerModels } from './content/models-resource.ts'
import { INSTRUCTIONS, SERVER } from './description/tool-texts.ts'
import { type Exchange, InputNeeded, type McpSession, type Tool } from './tool.ts'

export interface ServerParts {
  readonly session: McpSession
  readonly tools: readonly Tool[]
  readonly version: string
  readonly confirmations: Confirmations
  /** Called with errors that a client must not see. */
  readonly onError: (error: unknown) => void
  /** Called with each call, so that the process can wait for those under way. */
  readonly onCall: (work: Promise<unknown>) => void
}

/** Creates the server of one connection with its tools and resources. */
export function createServer(parts: ServerParts): McpServer {
  const { session, tools, version } = parts
  const server = new McpServer(
    { ...SERVER, version },
    {
      instructions: INSTRUCTIONS,
      capabilities: { tools: { listChanged: false }, resources: { listChanged: false } },
    },
  )
  for (const tool of tools) {
    const { name, title, description, annotations, inputSchema, outputSchema } = tool
    server.registerTool(
      name,
      {
        title,
        description,
        annotations,
        inputSchema: listedInput(inputSchema),
        outputSchema: listedOutput(outputSchema),
      },
      async (input: unknown, context: ServerContext) => {
        const work = callTool(parts, server, tool, input, context)
        parts.onCall(work)
        return await work
      },
    )
  }
  registerModels(server, session)
  return server
}

async function callTool(
  { session, confirmations, onError }: ServerParts,
  server: McpServer,
  tool: Tool,
  input: unknown,
  context: ServerContext,
): Promise<CallToolResult> {
  try {
    const exchange = { ...exchangeOf(context), ask: confirmations.of(server, context) }
    const { structured, content, meta } = await tool.run(session, exchange, input)
    return {
      content: [...content],
      structuredContent: structured as Record<string, unknown>,
      ...(meta && { _meta: { ...meta } }),
    }
  } catch (error) {
    if (error instanceof InputNeeded) return error.result as CallToolResult
    onError(error)
    return toolError(error)
  }
}

function exchangeOf({ mcpReq }: ServerContext): Pick<Exchange, 'signal' | 'progress'> {
  const { signal, _meta: { progressToken } = {} } = mcpReq
  return {
    signal,
    progress(done, total, message) {
      if (progressToken === undefined || signal.aborted) return
      const params = { progressToken, progress: done, ...(total !== undefined && { total }), message }
      // A client that has left needs no progress.
      mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
    },
  }
}
