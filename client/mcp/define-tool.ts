import * as z from 'zod'
import { FareboxError } from '../wire/farebox-error.ts'
import type { Tool, ToolDefinition } from './tool.ts'

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
  throw new FareboxError({
    code: 'invalid_arguments',
    problem: `The arguments do not match the input schema: ${z.prettifyError(error)}`,
    money: 'none',
    advice: 'Correct the arguments.',
  })
}
