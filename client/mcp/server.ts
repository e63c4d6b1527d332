import {
  type CallToolResult,
  McpServer,
  type ServerContext,
  type StandardSchemaWithJSON,
} from '@modelcontextprotocol/server'
import * as z from 'zod'
import { readList } from '../requests/service-lists.ts'
import type { ModelList, PricingCatalog, VoiceList } from '../wire/schemas.ts'
import { toolError } from './call/tool-error.ts'
import type { Confirmations } from './confirm/confirmations.ts'
import { UNTRUSTED_META, UNTRUSTED_RULE } from './content/untrusted.ts'
import { INSTRUCTIONS, MODELS_RESOURCE, SERVER } from './description/tool-texts.ts'
import { type Exchange, InputNeeded, type McpSession, type Tool } from './tool.ts'

type Standard = StandardSchemaWithJSON['~standard']

const ERROR_SCHEMA = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    advice: z.string(),
    money: z.enum(['none', 'unknown', 'charged']),
  }),
  notice: z.string().optional(),
})

interface ServerParts {
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
        inputSchema: listed((inputSchema['~standard'] as Standard).jsonSchema),
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
    const exchange = { ...exchangeOf(context), ask: confirmations(server, context) }
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

/** Adds the resource that lists models, voices and prices, from which an agent chooses. */
function registerModels(server: McpServer, session: Pick<McpSession, 'fareboxWithoutWallet'>): void {
  const { uri, name, ...description } = MODELS_RESOURCE
  server.registerResource(name, uri, description, async (_uri, { mcpReq: { signal } }) => {
    const { baseUrl } = await session.fareboxWithoutWallet()
    const access = { baseUrl, signal }
    const [models, prices, voices] = await Promise.all([
      readList<ModelList>(access, '/v1/models'),
      readList<PricingCatalog>(access, '/v1/pricing'),
      readList<VoiceList>(access, '/v1/audio/voices'),
    ])
    const lists = { notice: UNTRUSTED_RULE, models: models.data, prices: prices.data, voices: voices.data }
    const content = { uri, mimeType: description.mimeType, text: JSON.stringify(lists, null, 2) }
    return { contents: [{ ...content, _meta: { [UNTRUSTED_META]: { origin: 'service' } } }] }
  })
}

/**
 * Lists the result of a tool or the error in its place: clients of the first SDK compare an error with the schema as well, and
 * would drop one that does not match.
 */
function listedOutput(schema: z.ZodType): StandardSchemaWithJSON {
  const { output } = (z.union([schema, ERROR_SCHEMA])['~standard'] as Standard).jsonSchema
  // The protocol of 2025 requires a root of type `object`.
  const asObject: typeof output = (options) => ({ ...output(options), type: 'object' })
  return listed({ input: asObject, output: asObject })
}

/** Tools check their arguments and results themselves, so that each refusal has the form of their errors. */
function listed(jsonSchema: Standard['jsonSchema']): StandardSchemaWithJSON {
  return { '~standard': { version: 1, vendor: 'farebox', validate: (value) => ({ value }), jsonSchema } }
}
