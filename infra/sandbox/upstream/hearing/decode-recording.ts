import { spawn } from 'node:child_process'
import { findFfmpeg } from '../../../../api/request/audio/find-ffmpeg.ts'
import { LISTENING_RATE } from './tone-listener.ts'

const DECODE = [
  '-v',
  'error',
  '-f',
  'mp3',
  '-i',
  'pipe:0',
  '-ac',
  '1',
  '-ar',
  `${LISTENING_RATE}`,
  '-f',
  's16le',
  'pipe:1',
]

let ffmpegPath: Promise<string | undefined> | undefined

/** Decodes an MP3 with the service's ffmpeg, into pieces of samples of one channel. There are none without an ffmpeg. */
export async function* decodeRecording(file: Uint8Array): AsyncGenerator<Int16Array> {
  ffmpegPath ??= findFfmpeg({ configuredPath: process.env['FFMPEG_PATH'], searchPath: process.env['PATH'] })
  const path = await ffmpegPath
  if (path === undefined) return
  const decoder = spawn(path, DECODE, { stdio: ['pipe', 'pipe', 'ignore'] })
  // It may end before it has read everything; what it decoded until then counts.
  decoder.once('error', () => decoder.stdout.destroy())
  decoder.stdin.on('error', () => undefined)
  decoder.stdin.end(file)
  try {
    let rest = Buffer.alloc(0)
    for await (const chunk of decoder.stdout) {
      const bytes = Buffer.concat([rest, chunk as Buffer])
      const samples = new Int16Array(bytes.length >> 1)
      for (let index = 0; index < samples.length; index++) samples[index] = bytes.readInt16LE(index * 2)
      rest = bytes.subarray(samples.length * 2)
      yield samples
    }
  } finally {
    decoder.kill('SIGKILL')
  }
}
