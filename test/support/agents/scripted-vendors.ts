import { id3Tag } from '../../../infra/sandbox/samples/id3-tag.ts'
import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import { generateMp3 } from '../media/mp3-generator.ts'

/** Lets the vendor of texts answer each prompt that contains `mark` with this text. */
export function chatAnswers(mark: string, text: string): FaultRuleInput {
  const body = {
    candidates: [{ content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 20, totalTokenCount: 25 },
    modelVersion: 'simulated',
    responseId: 'scripted',
  }
  return { fault: 'status', status: 200, times: 'always', containing: mark, body }
}

/** Lets the vendor of transcriptions hear this text in each recording of {@link markedRecording} with `mark`. */
export function transcripts(mark: string, text: string): FaultRuleInput {
  const body = {
    language_code: 'eng',
    language_probability: 0.99,
    text,
    words: [{ text, start: 0, end: 0.9, type: 'word', speaker_id: null, logprob: 0 }],
    transcription_id: 'scripted',
  }
  return { fault: 'status', status: 200, times: 'always', containing: asInTag(mark), body }
}

/** Returns an MP3 of its own whose tag has `mark` as its title. */
export function markedRecording(mark: string, durationMs = 1000): Buffer {
  const tag = id3Tag({ title: mark, artist: 'test', language: 'eng', lyrics: '' })
  return Buffer.concat([tag, generateMp3({ durationMs, seed: mark })])
}

/** Tags have UTF-16; the simulator looks for UTF-8. Of ASCII both have the same bytes but for zeros. */
function asInTag(mark: string): string {
  return mark.split('').join('\0')
}
