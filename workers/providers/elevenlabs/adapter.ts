import { type Adapter, noOptionsSchema } from '../adapter.ts'
import { createModelLookUp } from './look-up-model.ts'
import { createElevenLabsSpeech } from './speech.ts'
import { createElevenLabsTranscription } from './transcription.ts'

export const elevenlabs: Adapter = {
  needsKey: true,
  ports: (connection, options) => {
    noOptionsSchema.parse(options)
    return {
      speech: createElevenLabsSpeech(connection),
      transcription: createElevenLabsTranscription(connection),
      lookUpModel: createModelLookUp(connection),
    }
  },
}
