import { execFileSync } from 'node:child_process'
import { parse } from 'node-webvtt'

/** A cue as a reader of the file sees it. */
export interface ReadCue {
  readonly startMs: number
  readonly endMs: number
  readonly text: string
}

const LARGEST_OUTPUT_BYTES = 256 * 1024 * 1024

const EMPTY_SRT = '1\n00:00:00,000 --> 00:00:00,001\n\n'

/**
 * Reads SubRip strictly: numbers from 1, one line of times, text, one empty line; or a single cue without text. Throws
 * for anything else.
 */
export function readSrt(file: string): ReadCue[] {
  if (file === EMPTY_SRT) return []
  if (!file.endsWith('\n') || file.endsWith('\n\n') || file.includes('\r')) throw new Error('line ends')
  return file
    .slice(0, -1)
    .split('\n\n')
    .map((block, index) => {
      const [number, times = '', ...lines] = block.split('\n')
      const match = /^(\d{2,}):([0-5]\d):([0-5]\d),(\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d),(\d{3})$/.exec(times)
      if (number !== String(index + 1) || !match || lines.length === 0) throw new Error(`block ${index}: ${block}`)
      const [, ...parts] = match.map(Number)
      return { startMs: milliseconds(parts.slice(0, 4)), endMs: milliseconds(parts.slice(4)), text: lines.join('\n') }
    })
}

function milliseconds([hours = 0, minutes = 0, seconds = 0, rest = 0]: number[]): number {
  return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
}

/** Reads WebVTT with another parser in its strict mode. The text is as a browser shows it, without tags. */
export function readVtt(file: string): ReadCue[] {
  return parse(file, { strict: true }).cues.map(({ start, end, text }) => ({
    startMs: Math.round(start * 1000),
    endMs: Math.round(end * 1000),
    text: text
      .replace(/<[^>]*>/gu, '')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&'),
  }))
}

/** Lets FFmpeg read a file and write it again: packets as they are, or decoded to the text that a player shows. */
export function throughFfmpeg(file: string, format: 'srt' | 'webvtt', codec: 'copy' | 'text'): string {
  const options = ['-v', 'error', '-f', format, '-i', 'pipe:0', '-c:s', codec, '-f', codec === 'text' ? 'srt' : format]
  const output = execFileSync('ffmpeg', [...options, 'pipe:1'], { input: file, maxBuffer: LARGEST_OUTPUT_BYTES })
  return `${output.toString('utf8').trimEnd()}\n`
}
