import type { Obstacle } from './obstacle.ts'

/** What a recording may be asked for beyond its text and language, as the caller writes it. */
export interface TranscriptionOptions {
  readonly diarize: boolean
  readonly tag_audio_events: boolean
  readonly timestamps: 'none' | 'word' | 'character'
  readonly response_format: 'json' | 'verbose_json'
}

export type TranscriptionObstacle = Obstacle<keyof TranscriptionOptions>
