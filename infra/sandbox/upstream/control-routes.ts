import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import type { CallLog } from './call-log.ts'
import type { FaultQueue } from './faults.ts'

/**
 * Answers the simulator's control routes, which no vendor has:
 *
 * - `GET /_simulator/faults`, `PUT` with a JSON array of rules (replaces all), `DELETE`
 * - `GET /_simulator/calls`, `DELETE` (deletes them in memory; the file stays)
 *
 * Answers are `{"rules": […]}` and `{"calls": […]}`; 400 for an invalid rule, 404 and 405 otherwise.
 */
export async function answerControl(
  { faults, log }: { faults: FaultQueue; log: CallLog },
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method } = request
  if (path === '/_simulator/calls' && (method === 'GET' || method === 'DELETE')) {
    if (method === 'DELETE') log.clear()
    return json(response, 200, { calls: log.calls })
  }
  if (path !== '/_simulator/faults') return json(response, path === '/_simulator/calls' ? 405 : 404, {})
  if (method === 'PUT') {
    const refusal = await replaceRules(faults, request)
    if (refusal !== undefined) return json(response, 400, { error: refusal })
  } else if (method === 'DELETE') {
    faults.replace([])
  } else if (method !== 'GET') {
    return json(response, 405, {})
  }
  return json(response, 200, { rules: faults.rules })
}

async function replaceRules(faults: FaultQueue, request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  try {
    faults.replace(JSON.parse(Buffer.concat(chunks).toString('utf8')))
    return undefined
  } catch (error) {
    if (error instanceof z.ZodError) return z.prettifyError(error)
    if (error instanceof SyntaxError) return 'The body is not JSON.'
    throw error
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
