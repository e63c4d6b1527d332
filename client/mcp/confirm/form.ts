import * as z from 'zod'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Confirmation } from '../tool.ts'

const answerSchema = z.object({ action: z.literal('accept'), content: z.object({ agree: z.literal(true) }) })

/** Returns what the person reads and fills in. It has only texts of this program. */
export function formOf({ tool, maximum, summary }: Confirmation) {
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
export function agreesTo(answer: unknown): boolean {
  return answerSchema.safeParse(answer).success
}
