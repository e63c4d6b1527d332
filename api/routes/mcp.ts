import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { UnreadLimiter } from '../limits/rate-limits.ts'
import { createProtocol, refuseOther, refuseUnreadable } from '../mcp/protocol.ts'
import { INSTRUCTIONS, listTools } from '../mcp/tool-list.ts'
import { INTERFACE_VERSION } from '../openapi/document.ts'
import { requireJson } from '../request/headers.ts'
import { type Catalogs, derived } from '../request/live-catalog.ts'
import type { RequestPreparer } from '../request/worker-threads/request-preparer.ts'
import { runToolCall, type ToolCallDependencies } from './tool-calls.ts'

const PATH = '/mcp'

interface McpDependencies extends ToolCallDependencies {
  readonly preparer: Pick<RequestPreparer, 'readMessage'>
  readonly publicBaseUrl: string
  readonly catalogs: Catalogs
  readonly limitUnread: UnreadLimiter
}

/**
 * Adds `POST /mcp`: the paid operations as tools of an MCP server (streamable HTTP, without sessions). A tool call is handled
 * as the request to its endpoint that it stands for, with key and payment from `_meta`.
 */
export function addMcpRoute(app: FastifyInstance, dependencies: McpDependencies): void {
  const { limits, limitUnread, preparer, publicBaseUrl, catalogs } = dependencies
  const protocol = derived(catalogs.offered, (catalog) =>
    createProtocol({
      tools: listTools(catalog),
      instructions: INSTRUCTIONS,
      version: INTERFACE_VERSION,
      websiteUrl: new URL('/', publicBaseUrl).href,
    }),
  )
  const url = new URL(PATH, publicBaseUrl)
  app.post(PATH, {
    onRequest: async (request, reply) => {
      requireJson(request.headers)
      limitUnread.takeRequest(request)
      // Of the operation nothing is known yet: only the memory for its body is taken.
      await limits.admission.admit(request, reply, { operation: null, idempotencyKey: null })
    },
    errorHandler: (error, request, reply) => {
      const refusal = refuseUnreadable(error, request.id)
      if (!refusal) throw error
      request.outcome = 'invalid_json'
      void reply.status(refusal.status).send(refusal.body)
    },
    handler: async (request, reply) => {
      reply.header('cache-control', 'no-store')
      const refusal = refuseOther(request.body, request.id)
      if (refusal) return reply.status(refusal.status).send(refusal.body)
      const { message, call } = await preparer.readMessage(request.body)
      // A call draws on the allowance of its payer, anything else on that of unpaid requests.
      if (!call) {
        limitUnread.giveBack(request)
        limits.limitRate({ ip: request.ip, headers: {} }, reply, 'openai')
      }
      const run = call && (() => runToolCall(dependencies, call, { request, reply }))
      return await sendAnswer(reply, await protocol().answer(headOf(request, url), message as object, run))
    },
  })
}

/** Returns the head of a request as the protocol's package takes it. */
function headOf({ headers }: FastifyRequest, url: URL): Request {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    typeof value === 'string' ? [[name, value]] : [],
  )
  return new Request(url, { method: 'POST', headers: entries })
}

async function sendAnswer(reply: FastifyReply, answer: Response): Promise<FastifyReply> {
  return await reply
    .status(answer.status)
    .headers(Object.fromEntries(answer.headers))
    .send(await answer.text())
}
