import { randomUUID } from 'node:crypto'
import type { CallToolResult } from '@modelcontextprotocol/server'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AppError } from '#shared/errors/app-error.ts'
import { operationById } from '#shared/operations/registry.ts'
import { clientGroups } from '#shared/runtime/client-address.ts'
import type { Tracer } from '#shared/runtime/tracing.ts'
import type { UnreadLimiter } from '../limits/rate-limits.ts'
import { readCallHeaders, requireUsable } from '../mcp/call-headers.ts'
import { errorResult, quoteResult, resultOf } from '../mcp/results/tool-results.ts'
import type { PaidRequestHandlers } from '../paid-request/handle-paid-request.ts'
import type { ErrorRenderer } from '../plugins/errors.ts'
import { countToolCall, traceToolCall } from '../plugins/request-telemetry.ts'
import type { ReadCall } from '../request/call.ts'
import { readIdempotencyKey } from '../request/headers.ts'
import type { ReadMessage } from '../request/worker-threads/request-preparer.ts'
import { isPaidTool, type PaidToolName, TOOL_OPERATIONS } from '../schemas/tool-operations.ts'
import { answerCall, type ConnectionLimits } from './paid.ts'
import { QUOTES_PATH, type QuoteDependencies, renderQuote } from './quotes.ts'

export interface ToolCallDependencies extends QuoteDependencies {
  readonly handlers: PaidRequestHandlers
  readonly tracer: Tracer
  readonly limits: ConnectionLimits
  readonly limitUnread: UnreadLimiter
  readonly renderError: ErrorRenderer
}

/** The connection that a tool call arrived on. */
interface Connection {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Runs a tool call as the request to its endpoint that it stands for. Never throws. */
export async function runToolCall(
  dependencies: ToolCallDependencies,
  { tool, meta, arguments: body }: NonNullable<ReadMessage['call']>,
  connection: Connection,
): Promise<CallToolResult> {
  const { request, reply } = connection
  const { headers, paymentProblem } = readCallHeaders(meta, randomUUID)
  const call = { id: request.id, ip: request.ip, headers, body }
  try {
    if (isPaidTool(tool)) traceToolCall(request, dependencies.tracer, TOOL_OPERATIONS[tool])
    else request.toolCall = { operation: QUOTES_PATH, status: 200 }
    dependencies.limitUnread.giveBack(request)
    dependencies.limits.limitRate(call, reply, 'openai')
    requireUsable(meta, request.headers)
    return isPaidTool(tool)
      ? await runPaid(dependencies, tool, call, paymentProblem, connection)
      : await runQuote(dependencies, call, connection)
  } catch (thrown) {
    const rendered = dependencies.renderError(thrown, request)
    countToolCall(request, rendered.error.entry.status, rendered.error.code)
    return errorResult(rendered)
  }
}

async function runPaid(
  dependencies: ToolCallDependencies,
  tool: PaidToolName,
  call: ReadCall,
  paymentProblem: AppError | null,
  { request, reply }: Connection,
): Promise<CallToolResult> {
  const { limits, limitUnread } = dependencies
  const operation = operationById(TOOL_OPERATIONS[tool])
  const idempotencyKey = readIdempotencyKey(call.headers)
  const hasPriority = await limits.admission.admitRead(call, { operation, idempotencyKey })
  if (hasPriority) limitUnread.rememberPayer(request)
  const response = await answerCall(dependencies.handlers, operation, { call, request, reply, hasPriority }, limits)
  countToolCall(request, response.status, paymentProblem?.code ?? response.outcome)
  return resultOf(tool, response, idempotencyKey, paymentProblem)
}

async function runQuote(
  dependencies: ToolCallDependencies,
  call: ReadCall,
  { request }: Connection,
): Promise<CallToolResult> {
  const reservation = dependencies.limits.admission.reservationOf(request)
  reservation?.retain()
  try {
    const caller = { client: clientGroups(request.ip), hasPriority: false }
    const { operation, effectiveRequest } = await dependencies.requests.readQuotedRequest(call, caller)
    return quoteResult(await renderQuote(dependencies, operation, effectiveRequest))
  } finally {
    reservation?.release()
  }
}
