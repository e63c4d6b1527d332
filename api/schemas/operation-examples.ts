import type { JsonSchema } from './json-schema.ts'

/** What the interface description says of a paid operation beside its schemas; the examples are valid against them. */
export interface OperationNotes {
  readonly description: string
  readonly requestExample: JsonSchema
  readonly resultExample: JsonSchema
}

/** A date that stands still, so that the description does not change from one start to the next. */
const CREATED = 1_767_225_600

const notes: Readonly<Record<string, OperationNotes>> = {
  createChatCompletion: {
    description:
      'Chat-completions-style text generation: text, images, tools and structured output. max_tokens (default 512) is the output ceiling that the authorized maximum is computed from; the charge follows the measured tokens. stream must be false.',
    requestExample: {
      model: 'textmodel-3.6-flash',
      messages: [{ role: 'user', content: 'Say hello.' }],
      max_tokens: 64,
    },
    resultExample: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: CREATED,
      model: 'textmodel-3.6-flash',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello.', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: 4,
        completion_tokens: 2,
        total_tokens: 6,
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    },
  },
  createMessage: {
    description:
      'Messages-style text generation: text, images, tools and a system prompt. max_tokens is required and is the output ceiling that the authorized maximum is computed from; the charge follows the measured tokens. stream must be false.',
    requestExample: {
      model: 'textmodel-3.6-flash',
      max_tokens: 64,
      messages: [{ role: 'user', content: 'Say hello.' }],
    },
    resultExample: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'textmodel-3.6-flash',
      content: [{ type: 'text', text: 'Hello.' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 4, output_tokens: 2 },
    },
  },
  createImageGeneration: {
    description:
      'Draws one 1024×1024 image (1K, 1:1). The image is hosted at data[0].url for seven days, until url_expires_at; with response_format b64_json its bytes come inline as well. The URL is a capability: whoever has it can fetch the image.',
    requestExample: { model: 'textmodel-3.1-flash-lite-image', prompt: 'A lighthouse at dusk' },
    resultExample: {
      created: CREATED,
      model: 'textmodel-3.1-flash-lite-image',
      image_size: '1K',
      aspect_ratio: '1:1',
      data: [
        {
          url: 'https://example.com/media/token',
          backed_up: true,
          url_expires_at: '2026-01-08T00:00:00.000Z',
          url_retention_days: 7,
        },
      ],
      price: { amount: '0.035', currency: 'USD' },
    },
  },
  createSpeech: {
    description:
      'Speaks up to 2000 characters as MP3. The audio is hosted at data[0].url for 24 hours, until data[0].expires_at. An Accept header that names audio/* or application/octet-stream is answered with the MP3 bytes and the result in X-Media-URL, X-Media-Expires-At, X-Audio-Duration-Ms and X-Input-Characters.',
    requestExample: { model: 'speechvendor/flash-v2.5', input: 'The last tram leaves at midnight.' },
    resultExample: {
      id: 'speech_1',
      created: CREATED,
      model: 'speechvendor/flash-v2.5',
      data: [
        {
          url: 'https://example.com/media/token',
          format: 'mp3',
          content_type: 'audio/mpeg',
          bytes: 33_640,
          duration_ms: 2102,
          characters: 33,
          expires_at: '2026-01-02T00:00:00.000Z',
          backed_up: true,
        },
      ],
      usage: { input_characters: 33 },
    },
  },
  createTranscription: {
    description:
      'Transcribes one MP3, sent as Base64 in JSON or as a file in a form. The audio is decoded and measured before the price is named, so the unpaid request and its signed retry must carry the identical audio and options. A third-party speech provider processes the audio in its standard retained mode and may keep it; deleting our staged copy does not delete theirs. Do not submit sensitive or regulated audio.',
    requestExample: { model: 'speechvendor/scribe-v2', audio_base64: 'SUQzBA==' },
    resultExample: {
      id: 'transcription_1',
      created: CREATED,
      model: 'speechvendor/scribe-v2',
      text: 'The last tram leaves at midnight.',
      language: 'en',
      language_probability_millionths: 998_000,
      usage: { input_audio_ms: 2102 },
    },
  },
}

/** Notes of an operation; one that is not described yet gets empty ones, and its schemas say the rest. */
export function notesOf(operationId: string, summary: string): OperationNotes {
  return notes[operationId] ?? { description: summary, requestExample: {}, resultExample: {} }
}
