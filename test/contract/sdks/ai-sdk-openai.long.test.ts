import { readFile } from 'node:fs/promises'
import { createOpenAI } from '@ai-sdk/openai'
import { generateSpeech, transcribe } from 'ai'
import { afterAll, beforeAll, expect } from 'vitest'
import { type ObservedSandbox, useObservedSandbox } from '../../support/processes/observed-sandbox.ts'
import { imageCall, ONCE, otherTextUses, readAiSdkFailure, textCall } from './ai-sdk.ts'
import { describeAnswers, describeSdk, type SdkCall, startsAsMp3 } from './sdk-contract.ts'

let sandbox: ObservedSandbox
beforeAll(async () => {
  sandbox = await useObservedSandbox()
})
afterAll(() => sandbox.stop())

const settings = () => ({ baseURL: `${sandbox.info.baseUrl}/v1`, apiKey: 'not-used', fetch: sandbox.payingFetch })
const openai = () => createOpenAI(settings())

const SPEECH_MODEL = 'speechvendor/flash-v2.5'
const OTHER_SAMPLE = new URL('../../../infra/sandbox/samples/two-at-the-stop.mp3', import.meta.url)
const TRANSCRIPTION_MODEL = 'speechvendor/scribe-v2'

/** This SDK sends no Accept header, so its caller must request the audio itself; the default answer is JSON. */
const speechCall: SdkCall = {
  name: 'generateSpeech',
  call: (headers) => speak(headers),
  check: ({ audio }: Awaited<ReturnType<typeof generateSpeech>>) => {
    expect(audio.mediaType).toBe('audio/mpeg')
    expect(startsAsMp3(audio.uint8Array)).toBe(true)
  },
  callOther: (headers) => speak(headers, { speed: 1.1, ...ONCE }),
  callInvalid: (headers) => speak(headers, { voice: 'alloy' }),
  invalidParam: 'voice',
}

function speak(headers: Record<string, string>, options: { speed?: number; voice?: string; maxRetries?: number } = {}) {
  return generateSpeech({
    model: openai().speech(SPEECH_MODEL),
    text: 'Next stop: the end of the line.',
    voice: 'talia',
    ...options,
    headers: { ...headers, accept: 'audio/mpeg' },
  })
}

/**
 * Without `providerOptions.openai`: given any, the package adds fields such as `temperature`, which the closed transcription
 * request rejects.
 */
const transcribeCall: SdkCall = {
  name: 'transcribe',
  call: (headers) => hear(headers),
  check: ({ text }: Awaited<ReturnType<typeof transcribe>>) => expect(text).toContain('I am the farebox'),
  callOther: async (headers) => hear(headers, { audio: await readFile(OTHER_SAMPLE), ...ONCE }),
  callInvalid: (headers) => hear(headers, { providerOptions: { openai: { language: 'it' } } }),
  invalidParam: 'temperature',
}

function hear(headers: Record<string, string>, options: Partial<Parameters<typeof transcribe>[0]> = {}) {
  return transcribe({ model: openai().transcription(TRANSCRIPTION_MODEL), audio: sandbox.sample, headers, ...options })
}

describeSdk({
  name: '@ai-sdk/openai',
  sandbox: () => sandbox,
  readFailure: readAiSdkFailure,
  otherUses: otherTextUses((id) => openai().chat(id)),
  calls: [textCall((id) => openai().chat(id)), imageCall((id) => openai().image(id)), speechCall, transcribeCall],
})

describeAnswers(() => sandbox)
