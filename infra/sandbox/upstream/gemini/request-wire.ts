import { z } from 'zod'

/** Keywords that the vendor lists as supported in `parametersJsonSchema` and `responseJsonSchema`. */
const SCHEMA_KEYWORDS = new Set(
  `$id $defs $ref $anchor type format title description enum items prefixItems minItems maxItems minimum maximum anyOf oneOf
  properties additionalProperties required propertyOrdering`.split(/\s+/),
)

/** Stricter than the vendor, which ignores some unknown keywords: adapters must send only listed ones. */
const jsonSchema = z.record(z.string(), z.unknown()).refine(isSupported, 'unsupported keyword in JSON schema')

function isSupported(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return typeof schema === 'boolean'
  return Object.entries(schema).every(([keyword, value]) => {
    if (!SCHEMA_KEYWORDS.has(keyword)) return false
    if (keyword === 'properties' || keyword === '$defs') return Object.values(value as object).every(isSupported)
    if (['anyOf', 'oneOf', 'prefixItems'].includes(keyword)) return (value as unknown[]).every(isSupported)
    if (keyword === 'enum') return Array.isArray(value) && value.every(isEnumerable)
    return keyword === 'items' || keyword === 'additionalProperties' ? isSupported(value) : true
  })
}

/** "`enum` (for strings and numbers)", of which an empty string is refused: "enum[0]: cannot be empty". */
function isEnumerable(value: unknown): boolean {
  return typeof value === 'number' || (typeof value === 'string' && value !== '')
}

const object = z.record(z.string(), z.unknown())

const part = z.union([
  z.strictObject({ text: z.string().min(1), thoughtSignature: z.string().optional() }),
  z.strictObject({ inlineData: z.strictObject({ mimeType: z.string().min(1), data: z.base64().min(1) }) }),
  z.strictObject({
    functionCall: z.strictObject({ id: z.string().optional(), name: z.string().min(1), args: object.optional() }),
    thoughtSignature: z.string().optional(),
  }),
  z.strictObject({
    functionResponse: z.strictObject({ id: z.string().optional(), name: z.string().min(1), response: object }),
  }),
])

/** The vendor's own SDK sends these in capitals. */
const thinkingLevel = z.enum(['minimal', 'low', 'medium', 'high']).or(z.enum(['MINIMAL', 'LOW', 'MEDIUM', 'HIGH']))

const tool = z.strictObject({
  functionDeclarations: z
    .array(
      z.strictObject({
        name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/),
        description: z.string().optional(),
        parametersJsonSchema: jsonSchema.optional(),
      }),
    )
    .max(512, 'At most 512 function declarations can be specified.')
    .refine(
      (declared) => new Set(declared.map(({ name }) => name)).size === declared.length,
      'Duplicate function declaration found',
    ),
})

/**
 * The request of `generateContent`. An unknown field is a 400, as at the vendor.
 * Source: ai.google.dev/api/generate-content and ai.google.dev/api/caching (Content, Part, Tool, ToolConfig)
 */
export const requestWire = z.strictObject({
  systemInstruction: z.strictObject({ parts: z.array(part).min(1) }).optional(),
  contents: z.array(z.strictObject({ role: z.enum(['user', 'model']).optional(), parts: z.array(part).min(1) })).min(1),
  tools: z.array(tool).optional(),
  toolConfig: z
    .strictObject({
      functionCallingConfig: z.strictObject({
        mode: z.enum(['AUTO', 'ANY', 'NONE', 'VALIDATED']),
        allowedFunctionNames: z.array(z.string()).optional(),
      }),
    })
    .optional(),
  safetySettings: z.array(z.strictObject({ category: z.string().min(1), threshold: z.string().min(1) })).optional(),
  generationConfig: z
    .strictObject({
      candidateCount: z.literal(1).optional(),
      maxOutputTokens: z.int().min(1).optional(),
      temperature: z.number().min(0).max(2).optional(),
      topP: z.number().min(0).max(1).optional(),
      topK: z.int().min(1).optional(),
      stopSequences: z.array(z.string()).max(5).optional(),
      seed: z.int32().optional(),
      presencePenalty: z.number().optional(),
      frequencyPenalty: z.number().optional(),
      responseMimeType: z.enum(['text/plain', 'application/json']).optional(),
      responseJsonSchema: jsonSchema.optional(),
      responseModalities: z.array(z.enum(['TEXT', 'IMAGE'])).optional(),
      imageConfig: z
        .strictObject({ aspectRatio: z.literal('1:1').optional(), imageSize: z.enum(['1K', '2K', '4K']).optional() })
        .optional(),
      thinkingConfig: z
        .strictObject({
          thinkingBudget: z.int().min(-1).optional(),
          thinkingLevel: thinkingLevel.optional(),
          includeThoughts: z.boolean().optional(),
        })
        .optional(),
    })
    .optional(),
})

export type GeminiRequest = z.infer<typeof requestWire>
export type GeminiPart = z.infer<typeof part>
