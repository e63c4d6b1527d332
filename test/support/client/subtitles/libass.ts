import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Cue, renderSrt, renderVtt } from '../../../../client/subtitles/subtitles.ts'
import { readSrt, readVtt } from './read-back.ts'

const LARGEST_OUTPUT_BYTES = 256 * 1024 * 1024
/** FFmpeg shows a subtitle file on a black picture a second: what libass draws, as mpv and the filter do. */
const PICTURE = { width: 384, height: 288 } as const

/** Returns a digest of the picture at the begin of each of so many seconds, with the subtitles of a file. */
export function picturesOf(file: string, extension: 'srt' | 'vtt' | 'ass', seconds: number): string[] {
  return inFolder((folder) => {
    const path = join(folder, `subtitles.${extension}`)
    writeFileSync(path, file)
    const source = `color=black:s=${PICTURE.width}x${PICTURE.height}:r=1:d=${seconds}`
    const filter = `subtitles=f=${path},format=gray`
    return ffmpeg(['-f', 'lavfi', '-i', source, '-vf', filter, '-f', 'framehash', '-hash', 'adler32', 'pipe:1'])
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.slice(line.lastIndexOf(',') + 1).trim())
  })
}

/**
 * Returns the pictures of texts, one a second, of which libass takes nothing for a code: in its own format, where braces
 * have escapes and a joiner that is not drawn keeps a backslash from what follows.
 */
export function literalPictures(texts: readonly string[]): string[] {
  const header = inFolder((folder) => {
    const [srt, ass] = [join(folder, 'any.srt'), join(folder, 'any.ass')]
    writeFileSync(srt, '1\n00:00:00,000 --> 00:00:01,000\nany\n')
    ffmpeg(['-i', srt, ass])
    return readFileSync(ass, 'utf8').split('Dialogue:')[0] ?? ''
  })
  const rows = texts.map((text, second) => {
    const literal = text.replaceAll('\\', '\\\u2060').replace(/[{}]/gu, '\\$&').replaceAll('\n', '\\N')
    return `Dialogue: 0,${assTime(second)},${assTime(second + 1)},Default,,0,0,0,,${literal}\n`
  })
  return picturesOf(header + rows.join(''), 'ass', texts.length)
}

/** Returns the texts of rendered cues, one a second, whose picture is not that of the characters in their file. */
export function changedByLibass(cues: readonly Cue[], form: 'srt' | 'vtt'): string[] {
  const file = form === 'srt' ? renderSrt(cues) : renderVtt(cues)
  const texts = (form === 'srt' ? readSrt(file) : readVtt(file)).map(({ text }) => text)
  const [pictures, literal] = [picturesOf(file, form, cues.length), literalPictures(texts)]
  if (pictures.length !== cues.length || literal.length !== cues.length) throw new Error('a picture is missing')
  return texts.filter((_, index) => pictures[index] !== literal[index])
}

const two = (value: number) => String(Math.floor(value) % 60).padStart(2, '0')

function assTime(seconds: number): string {
  return `${Math.floor(seconds / 3600)}:${two(seconds / 60)}:${two(seconds)}.00`
}

function ffmpeg(options: readonly string[]): string {
  return execFileSync('ffmpeg', ['-v', 'error', '-y', ...options], { maxBuffer: LARGEST_OUTPUT_BYTES }).toString('utf8')
}

function inFolder<Result>(use: (folder: string) => Result): Result {
  const folder = mkdtempSync(join(tmpdir(), 'farebox-subtitles-'))
  try {
    return use(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}
