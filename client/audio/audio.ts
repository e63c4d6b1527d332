export { AudioError, type AudioErrorCode } from './audio-error.ts'
export { type Ffmpeg, type FfmpegPaths, findFfmpeg } from './ffmpeg.ts'
export { type AudioLimits, type AudioPrices, longestAtMinimumMs } from './limits.ts'
export { type Span } from './pack/build-pack.ts'
export type { PackOptions } from './pack/plan-packs.ts'
export { type PackableUpload, type PreparedPack, preparePacks } from './pack/prepare-packs.ts'
export { type ClipTranscript, takeApart } from './pack/take-apart.ts'
export { type StitchOptions, stitch, type TranscribedPart } from './parts/stitch.ts'
export {
  type ExpectedRecording,
  expectRecording,
  type PreparedRecording,
  type PrepareOptions,
  prepareRecording,
  type Upload,
} from './prepare-recording.ts'
export { type FileFacts, readAgain } from './read-recording.ts'
export { readTranscript } from './read-transcript.ts'
export type { Transcript } from './transcript.ts'
