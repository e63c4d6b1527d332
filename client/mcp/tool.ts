import type { ContentBlock } from '@modelcontextprotocol/server'
import * as z from 'zod'
import type { Farebox } from '../farebox.ts'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
import type { PaidAnswers } from './call/paid-answers.ts'
import type { ToolTexts } from './description/tool-texts.ts'
import type { Folders } from './folders/open-folders.ts'
import type { LimitStore } from './limits/open-limits.ts'

/** What all tool calls of one process share. */
export interface McpSession {
  /** Opened at the first use. Throws a `FareboxError` that says what the person runs when no wallet or service is set. */
  farebox(): Promise<Farebox>
  /** The same, with a wallet that holds nothing when none is set: enough for prices and lists. */
  fareboxWithoutWallet(): Promise<Farebox>
  readonly limits: LimitStore
  readonly folders: Folders
  /** Random for each process: equal calls without a `request_id` are one call within a session only. */
  readonly nonce: string
  readonly answers: PaidAnswers
}

/** One tool call. */
export interface Exchange {
  /** Aborted when the client cancels the call or leaves. */
  readonly signal: AbortSignal
  /** Reports progress; does nothing when the client did not ask for it. `message` has only texts of this program. */
  progress(done: number, total: number | undefined, message: string): void
  /**
   * Resolves when a person agreed. Throws a `FareboxError` when they did not or cannot be asked, and `InputNeeded` when
   * the client asks them and then repeats the call.
   */
  ask(question: Confirmation): Promise<void>
}

/** What a person agrees to: one call at most at one price. */
export interface Confirmation {
  readonly tool: string
  /** The idempotency key of the call, or what names the call in the same way. */
  readonly key: string
  /** Atomic units. */
  readonly maximum: bigint
  /** Only texts of this program, no text of a model, file or server. */
  readonly summary: string
}

/** Thrown through a tool to return a result of the protocol that asks the client for input. */
export class InputNeeded extends Error {
  override readonly name = 'InputNeeded'
  readonly result: object

  constructor(result: object) {
    super('The client has to ask the person first.')
    this.result = result
  }
}

interface ToolDefinition<In = unknown, Out = unknown> extends ToolTexts {
  readonly inputSchema: z.ZodType<In>
  readonly outputSchema: z.ZodType<Out>
  run(session: McpSession, exchange: Exchange, input: In): Promise<ToolResult<Out>>
}

export interface ToolResult<Out> {
  /** A function of the paid result alone: equal on every repetition. So is the content. */
  readonly structured: Out
  readonly content: readonly ContentBlock[]
  /** What changes between repetitions, such as `replayed` and the limits left. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}

/** A tool as the server registers it, without its types. */
export interface Tool extends ToolTexts {
  readonly inputSchema: z.ZodType
  readonly outputSchema: z.ZodType
  /** Throws a `FareboxError` (`invalid_arguments`) for an input that does not match the schema. */
  run(session: McpSession, exchange: Exchange, input: unknown): Promise<ToolResult<unknown>>
}

/** Returns a tool that checks its arguments and results itself, so that a refusal has the form of all errors of tools. */
export function defineTool<In, Out>(definition: ToolDefinition<In, Out>): Tool {
  return {
    ...definition,
    run: async (session, exchange, input) => {
      const { inputSchema, outputSchema } = definition
      const result = await definition.run(session, exchange, readArguments(inputSchema, input))
      if (!outputSchema.safeParse(result.structured).success) throw damaged()
      return result
    },
  }
}

/** A service that answers in another form must not make a client drop the result without a word about the money. */
function damaged(): FareboxError {
  return new FareboxError({
    code: 'answer_damaged',
    problem: 'The answer of the service is not of the form that was expected.',
    money: 'unknown',
    advice: 'Repeat the call unchanged: it is charged once at most. If it happens again, update farebox.',
  })
}

function readArguments<In>(schema: z.ZodType<In>, input: unknown): In {
  const { success, data, error } = schema.safeParse(input)
  if (success) return data
  throw uncharged(
    'invalid_arguments',
    `The arguments do not match the input schema: ${z.prettifyError(error)}`,
    'Correct the arguments.',
  )
}
