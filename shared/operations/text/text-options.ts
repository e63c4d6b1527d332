import { z } from 'zod'
import { sourceOf } from '#shared/json/json-source.ts'
import type { TextRequest } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

/*
 * Extra properties of the open text bodies. Those that every vendor supports are forwarded when they have the right
 * type and are in the range that their family documents; all others are accepted and ignored. None is ever an error,
 * except `n`, which asks for work that would be paid for and not done.
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

/** Reads the sampling options. `stopField` is `stop` in chat completions and `stop_sequences` in messages. */
export function samplingOptions(body: Extras, stopField: 'stop' | 'stop_sequences'): Sampling {
  const sampling: Sampling = {}
  for (const [name, schema] of Object.entries(samplingSchemas)) {
    // Most are absent, and a failed parse is expensive.
    if (body[name] === undefined) continue
    const { data } = schema.safeParse(body[name])
    if (data !== undefined) sampling[name as keyof typeof samplingSchemas] = data
  }
  if (body[stopField] === undefined) return sampling
  const stops = stopSchema.safeParse(body[stopField]).data?.filter((stop) => stop !== '') ?? []
  return stops.length === 0 ? sampling : { ...sampling, stop_sequences: stops }
}

/**
 * `include_thought_signatures`, this service's own option for raw output: `true` adds the vendor's opaque thought
 * signatures to the result as `thought_signatures`. Any other value leaves them out and, like every extra, is not an
 * error.
 */
export const rawOutputSchema = z.unknown().optional().meta({
  type: 'boolean',
  default: false,
  description: 'Requests raw output: the result then contains the opaque thought signatures of the model.',
})

/** The number of choices of a chat completion. `null`, which the types of official SDKs allow, is the default. */
export const choicesSchema = z
  .unknown()
  .check(({ value, issues }) => {
    if (value !== undefined && value !== null && value !== 1)
      issues.push({ code: 'invalid_value', values: [1], input: value })
  })
  .optional()
  .meta({ type: 'integer', const: 1, default: 1, description: 'One choice is returned.' })

const outputCeilingSchema = z.int().min(1).max(65_536)

/**
 * Returns the hard limit on a chat model's output. `max_completion_tokens` is the family's newer name of `max_tokens`;
 * when both are present the lower one applies, so the payer never buys more than either allows.
 */
export function chatOutputCeiling(maxTokens: number | undefined, body: Extras, fallback: number): number {
  const { max_completion_tokens: given } = body
  const newer = given === undefined ? undefined : outputCeilingSchema.safeParse(given).data
  if (newer === undefined) return maxTokens ?? fallback
  return Math.min(newer, maxTokens ?? newer)
}

/** Reads `response_format` of chat completions; plain text, the default, and unknown formats are left out. */
export function chatResponseFormat(format: unknown): Pick<TextRequest, 'response_format'> {
  if (!isObject(format)) return {}
  if (format['type'] === 'json_object') return { response_format: { type: 'json_object' } }
  if (format['type'] !== 'json_schema') return {}
  return jsonSchemaFormat(format['json_schema'])
}

/** Reads the structured output of messages: `output_config.format`, or its earlier name `output_format`. */
export function messageResponseFormat(body: Extras): Pick<TextRequest, 'response_format'> {
  const configured = isObject(body['output_config']) ? body['output_config']['format'] : undefined
  const format = configured ?? body['output_format']
  return isObject(format) && format['type'] === 'json_schema' ? jsonSchemaFormat({ schema: format['schema'] }) : {}
}

function jsonSchemaFormat(named: unknown): Pick<TextRequest, 'response_format'> {
  const schema = isObject(named) ? sourceOf(named['schema']) : undefined
  if (!isObject(named) || schema === undefined) return {}
  const name = typeof named['name'] === 'string' ? { name: named['name'] } : {}
  return { response_format: { type: 'json_schema', ...name, schema } }
}
