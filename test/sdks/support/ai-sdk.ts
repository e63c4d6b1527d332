import {
  APICallError,
  generateImage,
  generateObject,
  generateText,
  type ImageModel,
  jsonSchema,
  type LanguageModel,
  Output,
  RetryError,
  tool,
} from 'ai'
import { expect } from 'vitest'
import type { ErrorBody } from '../../support/http/expect-refusal.ts'
import { isPng, type SdkCall, type SdkFailure, type SdkUse, weatherParameters } from './sdk-contract.ts'

// The warnings are about settings that these tests choose on purpose.
globalThis.AI_SDK_LOG_WARNINGS = false

export const MODEL = 'textmodel-3.5-flash'
const PROMPT = { prompt: 'Hello', maxOutputTokens: 300 }
/**
 * The AI SDK ignores `x-should-retry` and repeats every 409 twice, after 2 and 4 seconds. That costs nothing, which a
 * separate test shows.
 */
export const ONCE = { maxRetries: 0 }
const CITY = jsonSchema<{ city: string }>({ ...weatherParameters, required: ['city'] })

/** Returns a text call through any provider package of the AI SDK. */
export function textCall(model: (id: string) => LanguageModel): SdkCall {
  return {
    name: 'generateText',
    call: (headers) => generateText({ model: model(MODEL), ...PROMPT, headers }),
    check: ({ text, usage, finishReason }: Awaited<ReturnType<typeof generateText>>) => {
      expect(text).toContain('Hello')
      expect(finishReason).toBe('stop')
      expect(usage.totalTokens).toBeGreaterThan(0)
    },
    callOther: (headers) =>
      generateText({ model: model(MODEL), ...PROMPT, prompt: 'Another question', headers, ...ONCE }),
    callInvalid: (headers) => generateText({ model: model('gpt-4o'), ...PROMPT, headers }),
    invalidParam: 'model',
  }
}

/** Returns the AI SDK's further uses of a language model. */
export function otherTextUses(model: (id: string) => LanguageModel): SdkUse[] {
  return [
    {
      name: 'generateText with tools',
      call: (headers) =>
        generateText({
          model: model(MODEL),
          ...PROMPT,
          prompt: 'What is the weather in Milan?',
          tools: { get_weather: tool({ description: 'Returns the weather', inputSchema: CITY }) },
          headers,
        }),
      check: ({ toolCalls, finishReason }: Awaited<ReturnType<typeof generateText>>) => {
        expect(finishReason).toBe('tool-calls')
        expect(toolCalls).toMatchObject([{ toolName: 'get_weather', input: { city: expect.any(String) } }])
      },
    },
    {
      name: 'generateText with Output.object',
      call: async (headers) =>
        (
          await generateText({
            model: model(MODEL),
            ...PROMPT,
            prompt: 'Where is the stop?',
            output: Output.object({ schema: CITY }),
            headers,
          })
        ).output,
      check: (object: unknown) => expect(object).toMatchObject({ city: expect.any(String) }),
    },
    {
      name: 'generateObject',
      call: async (headers) =>
        (await generateObject({ model: model(MODEL), ...PROMPT, prompt: 'Where is it?', schema: CITY, headers }))
          .object,
      check: (object: unknown) => expect(object).toMatchObject({ city: expect.any(String) }),
    },
  ]
}

/** Returns a `generateImage` call, which requests the bytes inline. */
export function imageCall(model: (id: string) => ImageModel): SdkCall {
  const draw = (
    headers: Record<string, string>,
    options: { prompt?: string; size?: `${number}x${number}`; maxRetries?: number } = {},
  ) => generateImage({ prompt: 'A tram at night', headers, ...options, model: model('textmodel-3.1-flash-lite-image') })
  return {
    name: 'generateImage',
    call: (headers) => draw(headers, { size: '1024x1024' }),
    check: ({ image }: Awaited<ReturnType<typeof generateImage>>) => expect(isPng(image.uint8Array)).toBe(true),
    callOther: (headers) => draw(headers, { prompt: 'A bus', ...ONCE }),
    callInvalid: (headers) => draw(headers, { size: '512x512' }),
    invalidParam: 'size',
  }
}

/** Reads a failure: the message from the SDK's error, code and param from its `responseBody`. */
export function readAiSdkFailure(error: unknown): SdkFailure {
  const last = RetryError.isInstance(error) ? error.lastError : error
  if (!APICallError.isInstance(last)) throw last
  const { code, param } = (JSON.parse(last.responseBody ?? '') as ErrorBody).error
  return { status: last.statusCode, message: last.message, code, param }
}
