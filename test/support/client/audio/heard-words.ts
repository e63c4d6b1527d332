import { stitch } from '../../../../client/audio/parts/stitch.ts'
import type { Upload } from '../../../../client/audio/prepare-recording.ts'
import { readAgain } from '../../../../client/audio/read-recording.ts'
import type { Transcript } from '../../../../client/audio/transcript.ts'
import { hear } from '../../../../infra/sandbox/upstream/hearing/hear.ts'
import { hearTones } from '../../media/tone-ear.ts'

/** Returns what the simulated vendors hear, in the words of a transcription. */
export async function transcribe(mp3: Uint8Array): Promise<Transcript> {
  const heard = await hear(mp3, { hearWords: hearTones }, { tagAudioEvents: true })
  const words = (heard?.items ?? []).map(({ text, type, speaker, startSeconds, endSeconds }) => ({
    word: text,
    type,
    speaker: `speaker_${speaker}`,
    start: startSeconds,
    end: endSeconds,
  }))
  return { text: words.map(({ word }) => word).join(''), words }
}

/** Returns the transcript of a recording's uploads, at the times of the recording. */
export async function transcribeUploads(uploads: readonly Upload[]): Promise<Transcript> {
  const parts = []
  for (const upload of uploads) parts.push({ ...upload, transcript: await transcribe(await readAgain(upload)) })
  return stitch(parts)
}
