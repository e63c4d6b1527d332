import { id3Tag } from '../../../infra/sandbox/samples/id3-tag.ts'
import { type FrameOptions, generateMp3 } from './mp3-generator.ts'

/**
 * Returns an MP3 in which the simulated vendors hear this script: a line per speaker, and events in parentheses. One
 * that consists of events only is a recording without speech.
 */
export function recordingOf(script: string, durationMs = 1000, frames: FrameOptions = {}): Buffer {
  const tag = id3Tag({ title: 'Recording', artist: 'test', language: 'eng', lyrics: script })
  return Buffer.concat([tag, generateMp3({ ...frames, durationMs, seed: script })])
}
