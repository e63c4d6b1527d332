import { type Catalog, createCatalog } from '#shared/catalog/catalog.ts'
import { storedJson } from '#shared/digests/canonical-json.ts'
import type { AppError } from '#shared/errors/app-error.ts'
import { parseEffectiveRequest } from '#shared/jobs/parse-effective-request.ts'
import { type AnyOperation, operationById } from '#shared/operations/registry.ts'
import { invalidField } from '../../../api/request/field-errors.ts'

export const TEXT_MODEL = 'textmodel-2.5-pro'
export const IMAGE_MODEL = 'textmodel-3.1-flash-lite-image'
export const SPEECH_MODEL = 'speechvendor/flash-v2.5'

/** One model of each kind that these tests need, with prices that are easy to calculate with. */
export const smallCatalog: Catalog = createCatalog({
  models: [
    {
      id: TEXT_MODEL,
      category: 'text_generation',
      created: 1,
      inputPerMillionTokensUsd: '1',
      outputPerMillionTokensUsd: '10',
      contextWindow: 200_000,
      maximumOutputTokens: 60_000,
      minimumChargeUsd: '0.002',
      maximumChargeUsd: '0.766952',
    },
    {
      id: IMAGE_MODEL,
      category: 'image_generation',
      created: 1,
      pricePerImageUsd: '0.035',
      minimumChargeUsd: '0.035',
      maximumChargeUsd: '0.035',
    },
    {
      id: SPEECH_MODEL,
      category: 'text_to_speech',
      created: 1,
      pricePerThousandCharactersUsd: '0.2205',
      maximumCharacters: 2000,
      defaultVoice: 'darian',
      minimumChargeUsd: '0.002',
      maximumChargeUsd: '0.441',
    },
  ],
  voices: ['darian', 'bella'].map((id) => ({ id, name: id, description: id, languages: ['en'], retirementDate: null })),
})

/** Returns the error of status 400 for a body, or `null` when the schema accepts it. */
export function fieldFault(operationId: string, body: unknown): AppError | null {
  const { error } = operationById(operationId).bodySchema.safeParse(body)
  return error ? invalidField(error, body) : null
}

/** Returns the effective request of a valid body after a JSON round trip, validated by its own schema. */
export function effectiveOf(
  operationId: string,
  body: unknown,
  catalog = smallCatalog,
): ReturnType<AnyOperation['effectiveRequest']> {
  const operation = operationById(operationId)
  const effective = operation.effectiveRequest(operation.bodySchema.parse(body), null, catalog)
  return operation.effectiveRequestSchema.parse(parseEffectiveRequest(storedJson(effective)))
}

export function quoteOf(operationId: string, body: unknown, catalog = smallCatalog) {
  return operationById(operationId).quote(effectiveOf(operationId, body), catalog)
}
