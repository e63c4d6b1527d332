import { inputRequired, inputResponse, type RequestStateCodec, type ServerContext } from '@modelcontextprotocol/server'
import { type Confirmation, InputNeeded } from '../tool.ts'
import { agreesTo, formOf } from './form.ts'
import { declined } from './refusals.ts'

const QUESTION = 'agreement'

/** What a client brings back with the answer: which call was asked about, and at which price. */
export interface AskedAbout {
  readonly key: string
  /** Atomic units, in decimal. */
  readonly maximum: string
}

/**
 * Reads the answer that the client brought with the call, or throws the question, with which it repeats the call. An answer
 * counts for the call that was asked about, at no higher price.
 */
export async function askAgain(
  states: RequestStateCodec<AskedAbout>,
  context: ServerContext,
  question: Confirmation,
): Promise<void> {
  const answer = inputResponse(context.mcpReq.inputResponses, QUESTION)
  if (answer.kind !== 'elicit' || !isAbout(await verifiedState(states, context), question))
    throw await inputNeeded(states, question)
  if (!agreesTo(answer)) throw declined(question)
}

function isAbout(asked: AskedAbout | null, { key, maximum }: Confirmation): boolean {
  return asked !== null && asked.key === key && maximum <= BigInt(asked.maximum)
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
