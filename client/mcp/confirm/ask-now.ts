import type { ElicitResult, ServerContext } from '@modelcontextprotocol/server'
import type { Confirmation } from '../tool.ts'
import { agreesTo, formOf } from './form.ts'
import { declined, notAnswered } from './refusals.ts'

/** A person takes their time. */
const ANSWER_TIMEOUT_MS = 10 * 60_000

/** Asks while the call waits, as clients before 2026-07-28 are asked. */
export async function askNow({ mcpReq }: ServerContext, question: Confirmation, limitsFile: string): Promise<void> {
  if (!agreesTo(await answerOf(mcpReq, question, limitsFile))) throw declined(question)
}

async function answerOf(
  { send, signal }: ServerContext['mcpReq'],
  question: Confirmation,
  limitsFile: string,
): Promise<ElicitResult> {
  const request = { method: 'elicitation/create', params: { mode: 'form', ...formOf(question) } } as const
  try {
    return await send(request, { signal, timeout: ANSWER_TIMEOUT_MS })
  } catch (cause) {
    throw notAnswered(question, limitsFile, cause)
  }
}
