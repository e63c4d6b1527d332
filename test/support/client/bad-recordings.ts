import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { id3Tag } from '../../../infra/sandbox/samples/id3-tag.ts'
import { recordingOf } from '../media/recording.ts'

/** A file that cannot be transcribed, and the code of its error. */
export interface BadRecording {
  readonly name: string
  readonly code: string
}

/** Writes every kind of file that is no recording into a folder. Needs ffmpeg. */
export function writeBadRecordings(folder: string): readonly BadRecording[] {
  const at = (name: string) => join(folder, name)
  const convert = (source: string, name: string) =>
    execFileSync('ffmpeg', ['-v', 'error', '-nostdin', '-y', '-i', at(source), at(name)])
  const made: BadRecording[] = []
  const add = (name: string, code: string, content: Uint8Array | string) => {
    writeFileSync(at(name), content)
    made.push({ name, code })
  }
  mkdirSync(folder, { recursive: true })
  const mp3 = recordingOf('Ann: This is the source.', 4000)
  writeFileSync(at('.source.mp3'), mp3)
  for (const ending of ['wav', 'm4a', 'flac']) convert('.source.mp3', `.source.${ending}`)
  const m4a = readFileSync(at('.source.m4a'))

  add('empty.mp3', 'empty_file', '')
  add('empty.m4a', 'empty_file', '')
  add('tag-only.mp3', 'not_audio', id3Tag({ title: 'No sound', artist: 'x', language: 'eng', lyrics: 'none' }))
  add('cut-in-its-tag.mp3', 'damaged_audio', mp3.subarray(0, 30))
  add('text.mp3', 'not_audio', 'This is a text.\n'.repeat(100))
  add('page.wav', 'not_audio', `<html>${'<p>404</p>'.repeat(200)}</html>`)
  add('document.mp3', 'not_audio', `%PDF-1.7\n${'x'.repeat(5000)}`)
  add('archive.mp3', 'not_audio', Buffer.concat([Buffer.from('PK\u0003\u0004'), Buffer.alloc(5000, 1)]))
  add('zeros.mp3', 'damaged_audio', Buffer.alloc(100_000))
  add('noise.m4a', 'damaged_audio', noise(100_000))
  add('no-index.m4a', 'damaged_audio', m4a.subarray(0, Math.floor(m4a.length / 3)))
  const bought = Buffer.from(m4a)
  bought.write('drms', bought.indexOf('mp4a', bought.indexOf('stsd')), 'latin1')
  add('bought.m4p', 'protected_audio', bought)
  add('header-only.wav', 'not_audio', readFileSync(at('.source.wav')).subarray(0, 44))
  execFileSync('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', 'color=size=32x32:duration=1', at('silent-film.mp4')])
  made.push({ name: 'silent-film.mp4', code: 'no_audio' })
  mkdirSync(at('folder.mp3'))
  symlinkSync(at('nowhere.mp3'), at('broken-link.mp3'))
  made.push({ name: 'broken-link.mp3', code: 'file_not_found' })
  execFileSync('mkfifo', [at('pipe.mp3')])
  made.push({ name: 'pipe.mp3', code: 'not_a_file' })
  copyFileSync(at('.source.flac'), at('sparse.mp3'))
  truncateSync(at('sparse.mp3'), 0)
  truncateSync(at('sparse.mp3'), 300_000_000)
  made.push({ name: 'sparse.mp3', code: 'damaged_audio' })
  return made
}

/** Recordings that are transcribed although something about them is odd. Each has another content. */
export function writeOddRecordings(folder: string): readonly string[] {
  mkdirSync(folder, { recursive: true })
  const names = [
    'plain.mp3',
    'an MP3.wav',
    '-rf.mp3',
    'two\nlines.mp3',
    '\u001b[31mred\u001b[0m.mp3',
    'a:b%d*?"<>|.mp3',
    '{name}.mp3',
    '${HOME}`id`.mp3',
    '日本語 🎙 é.mp3',
    `${'long'.repeat(60)}.mp3`,
    '....mp3',
    'no-ending.srt.mp3',
  ]
  for (const name of names) writeFileSync(join(folder, name), recordingOf(`Ann: I am ${JSON.stringify(name)}.`, 2000))
  return names
}

/** The same bytes each time, of no format. */
function noise(length: number): Uint8Array {
  let state = 1
  return Uint8Array.from({ length }, () => {
    state = (state * 1_103_515 + 12_345) % 2 ** 31
    return (state >> 8) & 0xff
  })
}
