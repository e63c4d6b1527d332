import { uploadOperation } from '#shared/operations/registry.ts'
import { jsonSchemaOf } from '../schemas/json-schema.ts'
import { describedAudioSchema } from '../schemas/quotes.ts'
import { parameters } from './components.ts'

const challenge = {
  type: 'boolean',
  default: false,
  description: 'Whether the answer is the 402 of the request instead of a quote. Needs the header x-idempotency-key.',
}

/** The forms of the body of `POST /v1/quotes`. */
export const quoteRequestBody = {
  required: true,
  content: {
    'application/json': {
      schema: {
        type: 'object',
        properties: {
          operation: { type: 'string', description: 'The operationId of a paid endpoint.' },
          request: {
            type: 'object',
            description:
              'The endpoint’s JSON body. A transcription may describe its recording in audio, in place of audio_base64.',
            properties: { audio: jsonSchemaOf(describedAudioSchema, 'input') },
          },
          challenge,
        },
        required: ['operation', 'request'],
        additionalProperties: false,
      },
    },
    'multipart/form-data': {
      schema: {
        type: 'object',
        description: 'A transcription: the fields of its form, with operation and challenge among them.',
        properties: {
          operation: { type: 'string', const: uploadOperation.id },
          challenge,
          file: { type: 'string', format: 'binary', contentMediaType: 'audio/mpeg' },
        },
        required: ['operation', 'file'],
      },
    },
  },
}

/** The key of a challenge; a quote needs none. */
export const quoteParameters = [
  {
    ...parameters.IdempotencyKey,
    required: false,
    description:
      'Required with challenge true, which binds the key to the request as the endpoint does. Send the same key with the signed request.',
  },
]
