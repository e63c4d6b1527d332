import type { AudioError } from '../../../../client/audio/audio-error.ts'
import { findFfmpeg } from '../../../../client/audio/ffmpeg.ts'
import { prepareRecording } from '../../../../client/audio/prepare-recording.ts'

/**
 * A program that prepares a recording in a folder on a full disk. Prints the error as JSON.
 * Arguments: the recording, the folder.
 */
const [, , path = '', folder = ''] = process.argv
const limits = { maximumBytes: 26_214_400, maximumDurationMs: 60_000 }
await prepareRecording(path, { limits, ffmpeg: await findFfmpeg(), folder }).catch((error: AudioError) => {
  process.stdout.write(
    JSON.stringify({ name: error.name, code: error.code, money: error.money, message: error.message }),
  )
})
