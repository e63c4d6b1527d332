import { z } from 'zod'
import type { TextRequest } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

/*
 * Extra properties of the open text bodies. Those that every vendor's wire knows are forwarded when they are well typed
 * and in the range that their family documents; all others are accepted and left out. None is ever an error.
 */

type Extras = Readonly<Record<string, unknown>>

/** Vendors read `seed` as a signed 32-bit integer. */
const seedSchema = z
  .int()
  .min(-(2 ** 31))
  .max(2 ** 31 - 1)
const penaltySchema = z.number().min(-2).max(2)
const stopSchema = z.union([z.string().transform((stop) => [stop]), z.array(z.string())])

const samplingSchemas = {
  temperature: z.number().min(0).max(2),
  top_p: z.number().min(0).max(1),
  top_k: z.int().min(1),
  seed: seedSchema,
  presence_penalty: penaltySchema,
  frequency_penalty: penaltySchema,
} as const

type Sampling = Pick<TextRequest, keyof typeof samplingSchemas | 'stop_sequences'>

/** `stopField` is `stop` in chat completions and `stop_sequences` in messages. */
export function samplingOptions(body: Extras, stopField: 'stop' | 'stop_sequences'): Sampling {
  const sampling: Sampling = {}
  for (const [name, schema] of Object.entries(samplingSchemas)) {
    // Most are left out, and a failed parse costs more than all the others.
    if (body[name] === undefined) continue
    const { data } = schema.safeParse(body[name])
    if (data !== undefined) sampling[name as keyof typeof samplingSchemas] = data
  }
  if (body[stopField] === undefined) return sampling
  const stops = stopSchema.safeParse(body[stopField]).data?.filter((stop) => stop !== '') ?? []
  return stops.length === 0 ? sampling : { ...sampling, stop_sequences: stops }
}

/**
 * `include_thought_signatures`, this service's own option for raw output: `true` puts the vendor's opaque thought
 * signatures into the result as `thought_signatures`. Anything else leaves them out and, like every extra, is no error.
 */
export const rawOutputSchema = z.unknown().optional().meta({
  type: 'boolean',
  default: false,
  description: 'Asks for raw output: the result then holds the opaque thought signatures of the model.',
})

const outputCeilingSchema = z.int().min(1).max(65_536)

/**
 * The hard limit on what a chat model writes. `max_completion_tokens` is the family's newer name of `max_tokens`; where
 * both are given the lower one holds, so that the payer never buys more than either allows.
 */
export function chatOutputCeiling(maxTokens: number | undefined, body: Extras, fallback: number): number {
  const { max_completion_tokens: given } = body
  const newer = given === undefined ? undefined : outputCeilingSchema.safeParse(given).data
  if (newer === undefined) return maxTokens ?? fallback
  return Math.min(newer, maxTokens ?? newer)
}

type ResponseFormat = NonNullable<TextRequest['response_format']>

/** `response_format` of chat completions; plain text, being the default, and unknown formats are left out. */
export function chatResponseFormat(format: unknown): Pick<TextRequest, 'response_format'> {
  if (!isObject(format)) return {}
  if (format['type'] === 'json_object') return { response_format: { type: 'json_object' } }
  if (format['type'] !== 'json_schema') return {}
  return jsonSchemaFormat(format['json_schema'])
}

/** Structured output of messages: `output_config.format`, or `output_format` as it was called first. */
export function messageResponseFormat(body: Extras): Pick<TextRequest, 'response_format'> {
  const configured = isObject(body['output_config']) ? body['output_config']['format'] : undefined
  const format = configured ?? body['output_format']
  return isObject(format) && format['type'] === 'json_schema' ? jsonSchemaFormat({ schema: format['schema'] }) : {}
}

function jsonSchemaFormat(named: unknown): Pick<TextRequest, 'response_format'> {
  if (!isObject(named) || !isObject(named['schema'])) return {}
  const schema = named['schema'] as Extract<ResponseFormat, { type: 'json_schema' }>['schema']
  const name = typeof named['name'] === 'string' ? { name: named['name'] } : {}
  return { response_format: { type: 'json_schema', ...name, schema } }
}
