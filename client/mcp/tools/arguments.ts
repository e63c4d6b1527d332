import * as z from 'zod'
import { FASTEST, MOST_TOKENS, SLOWEST } from '../../requests/text-requests.ts'

/** More than any model reads. */
const LONGEST_TEXT = 2_000_000
const LONGEST_NAME = 200

export const requestId = z
  .string()
  .regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 visible ASCII characters')
  .optional()
  .describe('Names this call: with the same request_id it is charged once and returns the same result, in any session.')

export const model = z
  .string()
  .min(1)
  .max(LONGEST_NAME)
  .optional()
  .describe('The model, from farebox://models; the first one of its kind by default.')

export const prompt = z.string().min(1).max(LONGEST_TEXT)

export const system = z.string().min(1).max(LONGEST_TEXT).optional().describe('Instructions for the model.')

export const maxTokens = z
  .int()
  .min(1)
  .max(MOST_TOKENS)
  .optional()
  .describe('The longest answer, which also bounds the price; 512 by default.')

export const voice = z.string().min(1).max(LONGEST_NAME).optional().describe('The voice; that of the model by default.')

export const speed = z.number().min(SLOWEST).max(FASTEST).optional().describe(`From ${SLOWEST} to ${FASTEST}.`)
