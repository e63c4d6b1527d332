import { randomBytes } from 'node:crypto'
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  createRequestStateCodec,
  inputRequired,
  inputResponse,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server'
import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import { type FareboxError, uncharged } from '../../wire/farebox-error.ts'
import { limitsCommand } from '../limits/limits-file.ts'
import type { LimitStore } from '../limits/open-limits.ts'
import { type Confirmation, type Exchange, InputNeeded } from '../tool.ts'

/** A person takes their time. */
const ANSWER_TIMEOUT_MS = 10 * 60_000

const QUESTION = 'agreement'

/** What a client brings back with the answer: which call was asked about, and at which price. */
interface AskedAbout {
  readonly key: string
  /** Atomic units, in decimal. */
  readonly maximum: string
}

const answerSchema = z.object({ action: z.literal('accept'), content: z.object({ agree: z.literal(true) }) })

/** Asks the person in front of the client, in the way of its protocol revision. */
export function createConfirmations({ path: limitsFile }: Pick<LimitStore, 'path'>) {
  // Of this process: an answer to a question of another one asks again.
  const states = createRequestStateCodec<AskedAbout>({ key: randomBytes(32) })
  /** Returns how a person is asked during one call. */
  return (server: McpServer, context: ServerContext): Exchange['ask'] =>
    async (question) => {
      if (!canAsk(capabilitiesOf(server, context))) throw notAsked(question, limitsFile, 'this client cannot ask them')
      // Only requests since 2026-07-28 have an envelope; their questions are part of the result.
      if (context.mcpReq.envelope === undefined) await askNow(context, question, limitsFile)
      else await askAgain(states, context, question)
    }
}

export type Confirmations = ReturnType<typeof createConfirmations>

function capabilitiesOf({ server }: McpServer, { mcpReq }: ServerContext): ClientCapabilities | undefined {
  const envelope: Readonly<Record<string, unknown>> | undefined = mcpReq.envelope
  if (envelope === undefined) return server.getClientCapabilities()
  return envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined
}

/** Clients from before there were modes name none and can show forms. */
function canAsk({ elicitation }: ClientCapabilities = {}): boolean {
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)
}

/** Asks while the call waits, as clients before 2026-07-28 are asked. */
async function askNow(
  { mcpReq: { send, signal } }: ServerContext,
  question: Confirmation,
  limitsFile: string,
): Promise<void> {
  const request = { method: 'elicitation/create', params: { mode: 'form', ...formOf(question) } } as const
  const answer = await send(request, { signal, timeout: ANSWER_TIMEOUT_MS }).catch((cause: unknown) => {
    const repeat = 'Repeat the call when they can answer. '
    throw notAsked(question, limitsFile, 'no answer of theirs arrived', repeat, cause)
  })
  if (!agreesTo(answer)) throw declined(question)
}

/**
 * Reads the answer that the client brought with the call, or throws the question, with which it repeats the call. An answer
 * counts for the call that was asked about, at no higher price.
 */
async function askAgain(
  states: RequestStateCodec<AskedAbout>,
  context: ServerContext,
  question: Confirmation,
): Promise<void> {
  const answer = inputResponse(context.mcpReq.inputResponses, QUESTION)
  const asked = await verifiedState(states, context)
  const isAbout = asked !== null && asked.key === question.key && question.maximum <= BigInt(asked.maximum)
  if (answer.kind !== 'elicit' || !isAbout) throw await inputNeeded(states, question)
  if (!agreesTo(answer)) throw declined(question)
}

/** A state of an earlier process, or one that is too old or forged, is none. */
async function verifiedState(
  states: RequestStateCodec<AskedAbout>,
  context: ServerContext,
): Promise<AskedAbout | null> {
  const state = context.mcpReq.requestState()
  if (typeof state !== 'string') return null
  return await states.verify(state, context).catch(() => null)
}

async function inputNeeded(states: RequestStateCodec<AskedAbout>, question: Confirmation): Promise<InputNeeded> {
  const { key, maximum } = question
  return new InputNeeded(
    inputRequired({
      inputRequests: { [QUESTION]: inputRequired.elicit(formOf(question)) },
      requestState: await states.mint({ key, maximum: maximum.toString() }),
    }),
  )
}

/** Returns what the person reads and fills in. It has only texts of this program. */
function formOf({ tool, maximum, summary }: Confirmation) {
  const price = `at most ${formatUsdc(maximum)} USDC`
  return {
    message: `farebox (${tool}): ${summary}. It costs ${price}, paid from your wallet.`,
    requestedSchema: {
      type: 'object' as const,
      properties: { agree: { type: 'boolean' as const, title: `Pay ${price} for this call`, default: false } },
      required: ['agree'],
    },
  }
}

/** Returns whether the person agreed. A client that accepts a form by itself has not asked anyone. */
function agreesTo(answer: unknown): boolean {
  return answerSchema.safeParse(answer).success
}

/** Returns the error of a question that the person did not answer, because the client could not show it for example. */
function notAsked(
  { maximum }: Confirmation,
  limitsFile: string,
  why: string,
  advice = '',
  cause?: unknown,
): FareboxError {
  const price = formatUsdc(maximum)
  const command = limitsCommand(limitsFile, `set --confirm-above ${price}`)
  return uncharged(
    'confirmation_required',
    `The call may cost ${price} USDC, which needs the agreement of the person, and ${why}.`,
    `${advice}To allow such calls without a question, the person runs in a terminal: ${command}`,
    cause,
  )
}

/** The person did not agree. */
function declined({ maximum }: Confirmation): FareboxError {
  return uncharged(
    'confirmation_declined',
    `The person did not agree to pay at most ${formatUsdc(maximum)} USDC for this call.`,
    'Do not repeat the call unless they ask for it.',
  )
}
