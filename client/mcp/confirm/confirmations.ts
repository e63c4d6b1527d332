import { randomBytes } from 'node:crypto'
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { Exchange, LimitStore } from '../tool.ts'
import { type AskedAbout, askAgain } from './ask-again.ts'
import { askNow } from './ask-now.ts'
import { notAskable } from './refusals.ts'

/** Asks the person in front of the client, in the way of its protocol revision. */
export class Confirmations {
  /** Of this process: an answer to a question of another one asks again. */
  readonly #states: RequestStateCodec<AskedAbout> = createRequestStateCodec<AskedAbout>({ key: randomBytes(32) })

  readonly #limitsFile: string

  constructor({ path }: Pick<LimitStore, 'path'>) {
    this.#limitsFile = path
  }

  /** Returns how a person is asked during one call. */
  readonly of =
    (server: McpServer, context: ServerContext): Exchange['ask'] =>
    async (question) => {
      if (!canAsk(capabilitiesOf(server, context))) throw notAskable(question, this.#limitsFile)
      // Only requests since 2026-07-28 have an envelope; their questions are part of the result.
      if (context.mcpReq.envelope === undefined) await askNow(context, question, this.#limitsFile)
      else await askAgain(this.#states, context, question)
    }
}

function capabilitiesOf({ server }: McpServer, { mcpReq }: ServerContext): ClientCapabilities | undefined {
  const envelope: Readonly<Record<string, unknown>> | undefined = mcpReq.envelope
  if (envelope === undefined) return server.getClientCapabilities()
  return envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined
}

/** Clients from before there were modes name none and can show forms. */
function canAsk({ elicitation }: ClientCapabilities = {}): boolean {
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)
}
